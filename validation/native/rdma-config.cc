/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "rdma-config.h"

#include "ns3/boolean.h"
#include "ns3/uinteger.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(RdmaConfig);

TypeId
RdmaConfig::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::RdmaConfig")
            .SetParent<Object>()
            .SetGroupName("Roce")
            .AddConstructor<RdmaConfig>()
            .AddAttribute("Payload",
                          "Payload bytes of a full frame",
                          UintegerValue(4096),
                          MakeUintegerAccessor(&RdmaConfig::payload),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("Header",
                          "Bytes a data frame adds to its payload",
                          UintegerValue(62),
                          MakeUintegerAccessor(&RdmaConfig::header),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("AckBytes",
                          "Size of an ACK",
                          UintegerValue(66),
                          MakeUintegerAccessor(&RdmaConfig::ackBytes),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("CnpBytes",
                          "Size of a CNP",
                          UintegerValue(78),
                          MakeUintegerAccessor(&RdmaConfig::cnpBytes),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("AckEvery",
                          "Data frames per ACK; the last of a message is always acknowledged",
                          UintegerValue(16),
                          MakeUintegerAccessor(&RdmaConfig::ackEvery),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("AckHostClass",
                          "Class whose pause holds ACKs in the host; 0 is none",
                          UintegerValue(0),
                          MakeUintegerAccessor(&RdmaConfig::ackHostClass),
                          MakeUintegerChecker<uint8_t>(0, 7))
            .AddAttribute("AckFabricClass",
                          "Class of ACKs in switches; 0 is strict and lossy",
                          UintegerValue(3),
                          MakeUintegerAccessor(&RdmaConfig::ackFabricClass),
                          MakeUintegerChecker<uint8_t>(0, 7))
            .AddAttribute("VariableWindow",
                          "Scale the window with the rate",
                          BooleanValue(true),
                          MakeBooleanAccessor(&RdmaConfig::variableWindow),
                          MakeBooleanChecker())
            .AddAttribute("Timeout",
                          "Go back to the last acknowledged byte after so long; 0 is never",
                          TimeValue(MilliSeconds(4)),
                          MakeTimeAccessor(&RdmaConfig::m_timeoutTime),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("NackInterval",
                          "Least time between two NACKs for the same gap",
                          TimeValue(MicroSeconds(500)),
                          MakeTimeAccessor(&RdmaConfig::m_nackTime),
                          MakeTimeChecker(Time(0)));
    return tid;
}

void
RdmaConfig::Freeze()
{
    timeout = m_timeoutTime.GetTimeStep();
    nackInterval = m_nackTime.GetTimeStep();
    dcqcn->Freeze();
}

void
RdmaConfig::DoDispose()
{
    dcqcn = nullptr;
    Object::DoDispose();
}

} // namespace ns3
