/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#include "roce-frame.h"

#include "roce-net-device.h"

namespace ns3
{

void
RoceFrame::Notify()
{
    receiver->Receive(this);
}

RoceFrame*
RoceFramePool::Take(RoceFrame::Kind kind)
{
    if (m_free.empty())
    {
        m_free.push_back(&m_frames.emplace_back());
    }
    RoceFrame* frame = m_free.back();
    m_free.pop_back();
    frame->kind = kind;
    frame->ce = false;
    frame->cnp = false;
    frame->ackRequest = false;
    frame->hop = 0;
    frame->payload = 0;
    return frame;
}

void
RoceFramePool::Give(RoceFrame* frame)
{
    m_free.push_back(frame);
}

uint64_t
RoceFramePool::GetInUse() const
{
    return m_frames.size() - m_free.size();
}

} // namespace ns3
