/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef MONKEYTREE_REPLAY_H
#define MONKEYTREE_REPLAY_H

// The one header that Python reads. It includes nothing of ns-3, so that Cling parses it in
// no time; everything wrong with the input is thrown as std::invalid_argument.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mt
{

/** What became of one flow. */
struct FlowOutcome
{
    double start_ns; //!< < 0: never started
    double fct_ns;   //!< first byte posted to last ACK received; < 0: not finished
    uint64_t bytes;
    uint64_t retransmits;
    uint64_t cnps;
};

/** What happened at one end of one link. */
struct PortOutcome
{
    int node;
    int peer;
    uint64_t pauses_sent;
    uint64_t pauses_received;
    double paused_ns;
    uint64_t ecn_marks;
    uint64_t drops;
    uint64_t max_queue_bytes;
    uint64_t max_ingress_bytes;
    uint64_t headroom_bytes;
    uint64_t tx_bytes;
};

/** Sums over the run. */
struct Totals
{
    uint64_t events;
    double cpu_s;
    double end_ns;
    bool finished;
    uint64_t payload_delivered; //!< bytes accepted in order by receivers
    uint64_t frames_in_use;     //!< frames under way or queued at the end
    double skipped_ns;          //!< simulated time that was skipped as steady
    uint64_t skips;
};

/** One run of one scenario; one per process, as ns-3's simulator is a singleton. */
class Replay
{
  public:
    Replay(int hosts, const std::vector<int>& switches);
    ~Replay();
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

    /// Sets a parameter by its name in the scenario format.
    void Set(const std::string& name, double value);
    void AddLink(int a, int b, double gbps, double delayNs);
    /// Empty paths are hashed; `after` holds indices of flows that must be delivered first.
    void AddFlow(int src,
                 int dst,
                 uint64_t bytes,
                 double startNs,
                 const std::vector<int>& path,
                 const std::vector<int>& ackPath,
                 const std::vector<int>& after,
                 int priority);
    /// Builds the fabric, from which no link or parameter can be added.
    void Build();
    /// Runs to the last flow's end, or to the bound.
    void Run(double stopNs);

    std::vector<int> GetPath(int flow, bool ack) const;
    FlowOutcome GetFlow(int flow) const;
    int GetPortCount() const;
    PortOutcome GetPort(int port) const;
    Totals GetTotals() const;
    /// @returns acknowledged part of all bytes, 0 to 1; may be read while Run goes on
    double GetProgress() const;
    /// Samples of one port: bytes sent and bytes queued, at each interval and at the end
    std::vector<double> GetSentSamples(int port) const;
    std::vector<double> GetQueueSamples(int port) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace mt

#endif // MONKEYTREE_REPLAY_H
