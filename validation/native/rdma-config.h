/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef RDMA_CONFIG_H
#define RDMA_CONFIG_H

#include "dcqcn-config.h"

namespace ns3
{

/** Parameters of the transport that all NICs of a run share. */
class RdmaConfig : public Object
{
  public:
    static TypeId GetTypeId();
    /// Turns times into picoseconds, once the attributes are set.
    void Freeze();

    uint32_t payload;         //!< bytes of a full frame
    uint32_t header;          //!< bytes a data frame adds in buffers
    uint32_t ackBytes;        //!< size of ACK and NACK frames
    uint32_t cnpBytes;        //!< size of a CNP frame
    uint32_t ackEvery;        //!< data frames per ACK
    uint8_t ackHostClass;     //!< class whose pause holds ACKs in the host
    uint8_t ackFabricClass;   //!< class of ACKs in switches
    bool variableWindow;      //!< scale the window with the rate
    int64_t timeout{0};       //!< picoseconds without progress; 0 is never
    int64_t nackInterval{0};  //!< picoseconds between NACKs for one gap
    Ptr<DcqcnConfig> dcqcn;

  protected:
    void DoDispose() override;

  private:
    Time m_timeoutTime;
    Time m_nackTime;
};

} // namespace ns3

#endif // RDMA_CONFIG_H
