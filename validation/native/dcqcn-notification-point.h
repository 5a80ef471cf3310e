/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef DCQCN_NOTIFICATION_POINT_H
#define DCQCN_NOTIFICATION_POINT_H

#include <cstdint>

namespace ns3
{

/** The receiver's half of DCQCN: at most one CNP per flow and interval. */
class DcqcnNotificationPoint
{
  public:
    /// A marked frame came. @returns true when a CNP is due
    bool Marked(int64_t now, int64_t interval)
    {
        if (now < m_silentUntil)
        {
            return false;
        }
        m_silentUntil = now + interval;
        return true;
    }

  private:
    int64_t m_silentUntil{0};
};

} // namespace ns3

#endif // DCQCN_NOTIFICATION_POINT_H
