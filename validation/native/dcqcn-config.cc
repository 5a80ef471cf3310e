/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "dcqcn-config.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/uinteger.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(DcqcnConfig);

TypeId
DcqcnConfig::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::DcqcnConfig")
            .SetParent<Object>()
            .SetGroupName("Roce")
            .AddConstructor<DcqcnConfig>()
            .AddAttribute("Enabled",
                          "React to congestion notifications",
                          BooleanValue(true),
                          MakeBooleanAccessor(&DcqcnConfig::enabled),
                          MakeBooleanChecker())
            .AddAttribute("G",
                          "Gain of alpha",
                          DoubleValue(1.0 / 256),
                          MakeDoubleAccessor(&DcqcnConfig::g),
                          MakeDoubleChecker<double>(0, 1))
            .AddAttribute("AdditiveIncrease",
                          "bit/s",
                          DoubleValue(40e6),
                          MakeDoubleAccessor(&DcqcnConfig::ai),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("HyperIncrease",
                          "bit/s",
                          DoubleValue(400e6),
                          MakeDoubleAccessor(&DcqcnConfig::hai),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("MinRate",
                          "bit/s",
                          DoubleValue(100e6),
                          MakeDoubleAccessor(&DcqcnConfig::minRate),
                          MakeDoubleChecker<double>(1))
            .AddAttribute("Stages",
                          "F, the steps of fast recovery",
                          UintegerValue(5),
                          MakeUintegerAccessor(&DcqcnConfig::stages),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("ByteCounter",
                          "Bytes sent per increase step; 0 is off",
                          UintegerValue(0),
                          MakeUintegerAccessor(&DcqcnConfig::byteCounter),
                          MakeUintegerChecker<uint64_t>())
            .AddAttribute("Clamp",
                          "Lower the target rate at every cut, not only after an increase",
                          BooleanValue(false),
                          MakeBooleanAccessor(&DcqcnConfig::clamp),
                          MakeBooleanChecker())
            .AddAttribute("AlphaByTimer",
                          "Alpha moves once per AlphaTimer instead of once per CNP",
                          BooleanValue(true),
                          MakeBooleanAccessor(&DcqcnConfig::alphaByTimer),
                          MakeBooleanChecker())
            .AddAttribute("AlphaTimer",
                          "Period of alpha's decay",
                          TimeValue(MicroSeconds(55)),
                          MakeTimeAccessor(&DcqcnConfig::m_alphaTime),
                          MakeTimeChecker(TimeStep(1)))
            .AddAttribute("CutTimer",
                          "Period at which a CNP may cut the rate; 0 is at once",
                          TimeValue(MicroSeconds(50)),
                          MakeTimeAccessor(&DcqcnConfig::m_cutTime),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("RiseTimer",
                          "Period of rate increase",
                          TimeValue(MicroSeconds(55)),
                          MakeTimeAccessor(&DcqcnConfig::m_riseTime),
                          MakeTimeChecker(TimeStep(1)))
            .AddAttribute("CnpInterval",
                          "Least time between two CNPs of a flow",
                          TimeValue(MicroSeconds(50)),
                          MakeTimeAccessor(&DcqcnConfig::m_cnpTime),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("CnpInAck",
                          "Carry the notification as a bit of the ACK",
                          BooleanValue(false),
                          MakeBooleanAccessor(&DcqcnConfig::cnpInAck),
                          MakeBooleanChecker());
    return tid;
}

void
DcqcnConfig::Freeze()
{
    alphaTimer = m_alphaTime.GetTimeStep();
    cutTimer = m_cutTime.GetTimeStep();
    riseTimer = m_riseTime.GetTimeStep();
    cnpInterval = m_cnpTime.GetTimeStep();
}

} // namespace ns3
