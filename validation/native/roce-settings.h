/*
 * SPDX-License-Identifier: GPL-2.0-only
 */
#ifndef ROCE_SETTINGS_H
#define ROCE_SETTINGS_H

#include "ns3/object.h"

#include <string>
#include <vector>

namespace ns3
{

/** Turns the parameters of the scenario format into attributes of our objects. */
class RoceSettings
{
  public:
    /// The class of objects an attribute belongs to.
    enum Target
    {
        DEVICE,
        SWITCH,
        MMU,
        RDMA,
        DCQCN,
        FABRIC
    };

    /// @throws std::invalid_argument when there is no such parameter
    void Set(const std::string& name, double value);
    /// Gives an object its attributes. @throws std::invalid_argument when one is out of range
    void Apply(Target target, Ptr<Object> object) const;
    /// @returns a parameter of the fabric itself
    double Get(const std::string& name) const;

  private:
    struct Given
    {
        std::size_t row; //!< in the table of parameters
        double value;
    };

    std::vector<Given> m_given;
};

} // namespace ns3

#endif // ROCE_SETTINGS_H
