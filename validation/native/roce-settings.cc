/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-settings.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/nstime.h"
#include "ns3/uinteger.h"

#include <cmath>
#include <memory>
#include <stdexcept>

namespace ns3
{

namespace
{

enum Unit
{
    COUNT, //!< whole number
    REAL,
    FLAG,
    MICROSECONDS,
    MEGABITS //!< Mb/s, in bit/s inside
};

struct Row
{
    const char* name;
    RoceSettings::Target target;
    const char* attribute;
    Unit unit;
    double fallback; //!< of the fabric's own parameters
};

const Row TABLE[] = {
    {"wire_overhead_bytes", RoceSettings::DEVICE, "WireOverhead", COUNT, 0},
    {"truncate_ns", RoceSettings::DEVICE, "TruncateNs", FLAG, 0},
    {"pfc", RoceSettings::SWITCH, "Pfc", FLAG, 0},
    {"ecn", RoceSettings::SWITCH, "Ecn", FLAG, 0},
    {"kmin_bytes", RoceSettings::SWITCH, "Kmin", REAL, 0},
    {"kmax_bytes", RoceSettings::SWITCH, "Kmax", REAL, 0},
    {"pmax", RoceSettings::SWITCH, "Pmax", REAL, 0},
    {"alpha", RoceSettings::SWITCH, "Alpha", REAL, 0},
    {"alpha_by_rate", RoceSettings::SWITCH, "AlphaByRate", FLAG, 0},
    {"headroom_bdp", RoceSettings::SWITCH, "HeadroomBdp", REAL, 0},
    {"headroom_extra_bytes", RoceSettings::SWITCH, "HeadroomExtra", COUNT, 0},
    {"pause_us", RoceSettings::SWITCH, "PauseTime", MICROSECONDS, 0},
    {"pfc_bytes", RoceSettings::SWITCH, "PfcBytes", COUNT, 0},
    {"buffer_bytes", RoceSettings::MMU, "Buffer", COUNT, 0},
    {"reserve_bytes", RoceSettings::MMU, "Reserve", COUNT, 0},
    {"xon_offset_bytes", RoceSettings::MMU, "XonOffset", COUNT, 0},
    {"payload_bytes", RoceSettings::RDMA, "Payload", COUNT, 0},
    {"header_bytes", RoceSettings::RDMA, "Header", COUNT, 0},
    {"ack_bytes", RoceSettings::RDMA, "AckBytes", COUNT, 0},
    {"cnp_bytes", RoceSettings::RDMA, "CnpBytes", COUNT, 0},
    {"ack_every", RoceSettings::RDMA, "AckEvery", COUNT, 0},
    {"ack_host_class", RoceSettings::RDMA, "AckHostClass", COUNT, 0},
    {"ack_fabric_class", RoceSettings::RDMA, "AckFabricClass", COUNT, 0},
    {"window_variable", RoceSettings::RDMA, "VariableWindow", FLAG, 0},
    {"rto_us", RoceSettings::RDMA, "Timeout", MICROSECONDS, 0},
    {"nack_interval_us", RoceSettings::RDMA, "NackInterval", MICROSECONDS, 0},
    {"dcqcn", RoceSettings::DCQCN, "Enabled", FLAG, 0},
    {"g", RoceSettings::DCQCN, "G", REAL, 0},
    {"ai_mbps", RoceSettings::DCQCN, "AdditiveIncrease", MEGABITS, 0},
    {"hai_mbps", RoceSettings::DCQCN, "HyperIncrease", MEGABITS, 0},
    {"min_rate_mbps", RoceSettings::DCQCN, "MinRate", MEGABITS, 0},
    {"stages", RoceSettings::DCQCN, "Stages", COUNT, 0},
    {"byte_counter_bytes", RoceSettings::DCQCN, "ByteCounter", COUNT, 0},
    {"clamp", RoceSettings::DCQCN, "Clamp", FLAG, 0},
    {"alpha_by_timer", RoceSettings::DCQCN, "AlphaByTimer", FLAG, 0},
    {"alpha_timer_us", RoceSettings::DCQCN, "AlphaTimer", MICROSECONDS, 0},
    {"cut_timer_us", RoceSettings::DCQCN, "CutTimer", MICROSECONDS, 0},
    {"rise_timer_us", RoceSettings::DCQCN, "RiseTimer", MICROSECONDS, 0},
    {"cnp_interval_us", RoceSettings::DCQCN, "CnpInterval", MICROSECONDS, 0},
    {"cnp_in_ack", RoceSettings::DCQCN, "CnpInAck", FLAG, 0},
    {"window_bdp", RoceSettings::FABRIC, "", REAL, 0},
    {"seed", RoceSettings::FABRIC, "", COUNT, 1},
    {"ecmp_seed", RoceSettings::FABRIC, "", COUNT, 0},
    {"udp_port", RoceSettings::FABRIC, "", COUNT, 4791},
    {"sample_us", RoceSettings::FABRIC, "", REAL, 0},
    {"fast_forward", RoceSettings::FABRIC, "", FLAG, 0},
};

std::unique_ptr<AttributeValue>
MakeValue(Unit unit, double value)
{
    switch (unit)
    {
    case COUNT:
        return std::make_unique<UintegerValue>(static_cast<uint64_t>(std::llround(value)));
    case FLAG:
        return std::make_unique<BooleanValue>(value != 0);
    case MICROSECONDS:
        return std::make_unique<TimeValue>(PicoSeconds(std::llround(value * 1e6)));
    case MEGABITS:
        return std::make_unique<DoubleValue>(value * 1e6);
    default:
        return std::make_unique<DoubleValue>(value);
    }
}

} // namespace

void
RoceSettings::Set(const std::string& name, double value)
{
    for (std::size_t row = 0; row < std::size(TABLE); row++)
    {
        if (name == TABLE[row].name)
        {
            if (!std::isfinite(value) || value < 0)
            {
                throw std::invalid_argument("parameter " + name + " must be 0 or more");
            }
            m_given.push_back({row, value});
            return;
        }
    }
    throw std::invalid_argument("there is no parameter " + name);
}

void
RoceSettings::Apply(Target target, Ptr<Object> object) const
{
    for (const Given& given : m_given)
    {
        const Row& row = TABLE[given.row];
        if (row.target == target &&
            !object->SetAttributeFailSafe(row.attribute, *MakeValue(row.unit, given.value)))
        {
            throw std::invalid_argument("parameter " + std::string(row.name) +
                                        " is out of range: " + std::to_string(given.value));
        }
    }
}

double
RoceSettings::Get(const std::string& name) const
{
    double value = 0;
    for (const Row& row : TABLE)
    {
        value = name == row.name ? row.fallback : value;
    }
    for (const Given& given : m_given)
    {
        value = name == TABLE[given.row].name ? given.value : value;
    }
    return value;
}

} // namespace ns3
