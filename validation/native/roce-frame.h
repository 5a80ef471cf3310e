/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_FRAME_H
#define ROCE_FRAME_H

#include "ns3/event-impl.h"

#include <cstdint>
#include <deque>
#include <vector>

namespace ns3
{

class RdmaQueuePair;
class RoceNetDevice;

/**
 * A RoCEv2 frame, which is also the event of its own arrival at the next device.
 *
 * An ns3::Packet costs twice the time here (buffer, header serialisation at each hop) and an
 * allocated event per hop half as much again, so frames are pooled and carry their headers as
 * members. The pool holds one reference for good; the simulator's own reference comes and goes.
 */
class RoceFrame : public EventImpl
{
  public:
    /// What the frame is.
    enum Kind : uint8_t
    {
        DATA,
        ACK,
        NACK,
        CNP,
        PFC
    };

    Kind kind{DATA};
    uint8_t priority{0};     //!< class 0 (control, strict) to 7
    bool ce{false};          //!< IP ECN field: congestion experienced
    bool ackRequest{false};  //!< DATA: to be acknowledged at once
    bool cnp{false};         //!< ACK: the congestion bit that the reference carries there
    uint8_t pfcPriority{0};  //!< PFC: the class it pauses or resumes
    uint8_t hop{0};          //!< index in route of the device that sends it next
    uint32_t bytes{0};       //!< size in buffers (no preamble, no gap)
    uint32_t payload{0};     //!< DATA: payload bytes
    uint64_t seq{0};         //!< DATA: first byte; ACK, NACK: next byte expected
    int64_t pauseTime{0};    //!< PFC: 0 resumes, < 0 pauses until resumed, else picoseconds
    RdmaQueuePair* qp{nullptr};
    RoceNetDevice* const* route{nullptr}; //!< sending devices from source to sink
    RoceNetDevice* receiver{nullptr};     //!< the device it is under way to
    RoceNetDevice* ingress{nullptr};      //!< the device by which it came into the switch it is in
    RoceFrame* next{nullptr};             //!< link of the queue it stands in

  protected:
    void Notify() override;
};

/** First in, first out, linked through the frames themselves. */
class RoceFrameQueue
{
  public:
    bool IsEmpty() const
    {
        return !m_head;
    }

    void Push(RoceFrame* frame)
    {
        frame->next = nullptr;
        (m_head ? m_tail->next : m_head) = frame;
        m_tail = frame;
    }

    RoceFrame* Pop()
    {
        RoceFrame* frame = m_head;
        m_head = frame->next;
        return frame;
    }

  private:
    RoceFrame* m_head{nullptr};
    RoceFrame* m_tail{nullptr};
};

/** Frames for re-use; it must outlive every event that is still scheduled. */
class RoceFramePool
{
  public:
    RoceFrame* Take(RoceFrame::Kind kind);
    void Give(RoceFrame* frame);
    /// @returns frames taken and not yet given back
    uint64_t GetInUse() const;

  private:
    std::deque<RoceFrame> m_frames;
    std::vector<RoceFrame*> m_free;
};

} // namespace ns3

#endif // ROCE_FRAME_H
