/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef DCQCN_CONFIG_H
#define DCQCN_CONFIG_H

#include "ns3/nstime.h"
#include "ns3/object.h"

namespace ns3
{

/** Parameters of DCQCN (Zhu et al., SIGCOMM 2015) that all queue pairs of a run share. */
class DcqcnConfig : public Object
{
  public:
    static TypeId GetTypeId();
    /// Turns times into picoseconds, once the attributes are set.
    void Freeze();

    bool enabled;
    double g;              //!< gain of alpha
    double ai;             //!< additive increase, bit/s
    double hai;            //!< hyper increase, bit/s
    double minRate;        //!< bit/s
    uint32_t stages;       //!< F, steps of fast recovery
    uint64_t byteCounter;  //!< bytes per increase step; 0 is off
    bool clamp;            //!< lower the target at every cut
    bool alphaByTimer;     //!< alpha moves by timer (as NICs do), not by CNP (as the paper)
    int64_t alphaTimer{0}; //!< picoseconds
    int64_t cutTimer{0};   //!< picoseconds between cuts; 0 cuts at each CNP
    int64_t riseTimer{0};  //!< picoseconds
    int64_t cnpInterval{0};//!< picoseconds between CNPs of a flow; 0 is no pacing
    bool cnpInAck;         //!< the reference: a bit in the ACK instead of a packet

  private:
    Time m_alphaTime;
    Time m_cutTime;
    Time m_riseTime;
    Time m_cnpTime;
};

} // namespace ns3

#endif // DCQCN_CONFIG_H
