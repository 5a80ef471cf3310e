"""Learning a hash nobody told us: affine ones are predicted, others are tabled, and never mixed up."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.ecmp.affine import AffineFit, fit
from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT
from monkeytree.ecmp.learn import (
    INDEPENDENT,
    Probe,
    expected_probes,
    held_out_needed,
    learn,
    probes_needed,
    table_of,
)
from monkeytree.ecmp.stage import Packet, choose, hash_value
from monkeytree.fabric_hash import Algorithm, HashStage

AFFINE: tuple[Algorithm, ...] = ("crc16_ccitt", "crc16_arc", "crc32", "crc32_hi", "toeplitz", "xor16")
PAIR = ("10.0.0.1", "10.0.1.1")


def way(stage: HashStage, src: str, dst: str, port: int, uplinks: int) -> int:
    return choose(stage, hash_value(stage, Packet(src, dst, port)), uplinks)


def probes(
    stage: HashStage, uplinks: int, count: int, rng: random.Random, pair: tuple[str, str] = PAIR
) -> list[Probe]:
    ports = rng.sample(range(FIRST_PORT, LAST_PORT + 1), count)
    return [Probe(*pair, port, way(stage, *pair, port, uplinks)) for port in ports]


@pytest.mark.parametrize("uplinks", [2, 4, 8, 16])
@pytest.mark.parametrize("algorithm", AFFINE)
def test_an_affine_hash_is_predicted_after_15_independent_probes(algorithm: Algorithm, uplinks: int) -> None:
    rng = random.Random(f"{algorithm}/{uplinks}")
    stage = HashStage(algorithm, seed=rng.randrange(2**32), offset=rng.randrange(16))
    sent = probes(stage, uplinks, probes_needed(uplinks), rng)
    (learned,) = learn(sent, {PAIR: range(uplinks)})
    assert learned.pair.method == "affine", learned.why
    assert learned.independent <= INDEPENDENT
    assert learned.held_out >= held_out_needed(uplinks)
    assert learned.pair.probes == len(sent) <= 38
    assert learned.pair.confidence >= 1 - 1e-6
    reached = {way(stage, *PAIR, port, uplinks) for port in range(FIRST_PORT, LAST_PORT + 1)}
    for uplink in range(uplinks):
        ports = learned.pair.ports.get(uplink, ())
        assert bool(ports) == (uplink in reached)
        assert {way(stage, *PAIR, port, uplinks) for port in ports} <= {uplink}
    assert set(learned.unseen) == set(range(uplinks)) - reached


def test_a_wrong_fit_is_refused_in_1000_of_1000_trials() -> None:
    """ns-3's hash is not affine; nor are CRCs whose uplinks are no power of two."""
    for trial in range(1000):
        rng = random.Random(trial)
        uplinks = (2, 4, 8, 16, 6, 32)[trial % 6]
        stage = HashStage("crc32" if uplinks == 6 else "murmur3", seed=trial)
        sent = probes(stage, uplinks, rng.randrange(16, 120), rng)
        (learned,) = learn(sent, {PAIR: range(uplinks)}, seed=trial)
        assert learned.pair.method == "probed"
        assert learned.why
        seen = {uplink: {probe.port for probe in sent if probe.uplink == uplink} for uplink in range(uplinks)}
        assert {uplink: set(ports) for uplink, ports in learned.pair.ports.items()} == {
            uplink: ports for uplink, ports in seen.items() if ports
        }


def test_a_hash_that_is_affine_for_most_ports_is_refused() -> None:
    """A bucket in sixteen goes elsewhere, as with resilient hashing after a failure."""
    stage, rng = HashStage("crc32", seed=1), random.Random(3)
    refused = 0
    for trial in range(50):
        sent = [
            Probe(
                *PAIR, probe.port, (probe.uplink + 1) % 4 if hash(probe.port * 7) % 16 == 0 else probe.uplink
            )
            for probe in probes(stage, 4, 200, rng)
        ]
        refused += learn(sent, {PAIR: range(4)}, seed=trial)[0].pair.method == "probed"
    assert refused == 50


def test_pairs_of_one_leaf_are_predicted_together_even_unprobed() -> None:
    stage, rng = HashStage("crc16_ccitt", seed=77), random.Random(1)
    sources, targets = [f"10.0.0.{n}" for n in range(8)], [f"10.0.1.{n}" for n in range(8)]
    pairs = [(src, dst) for src in sources for dst in targets]
    sent = [probe for pair in rng.sample(pairs, 24) for probe in probes(stage, 4, 2, rng, pair)]
    learned = learn(sent, {pair: range(4) for pair in pairs}, leaves=dict.fromkeys(sources, "r0/0"))
    assert len(learned) == 64
    assert {found.pair.method for found in learned} == {"affine"}
    for found in learned:
        for uplink, ports in found.pair.ports.items():
            assert {way(stage, found.pair.src, found.pair.dst, port, 4) for port in ports} == {uplink}
    murmur = HashStage("murmur3")
    sent = [probe for pair in pairs for probe in probes(murmur, 4, 2, rng, pair)]
    learned = learn(sent, {pair: range(4) for pair in pairs}, leaves=dict.fromkeys(sources, "r0/0"))
    assert {found.pair.method for found in learned} == {"probed"}


def test_pairs_without_probes_are_predicted_only_where_others_were_held_out() -> None:
    """A hash that is affine in the port alone: each pair has a constant that no other pair tells."""
    crc, constant = HashStage("crc32", fields=("sport",)), HashStage("murmur3", fields=("src", "dst"))
    sources, targets = [f"10.0.0.{n}" for n in range(4)], [f"10.0.1.{n}" for n in range(4)]
    pairs = [(src, dst) for src in sources for dst in targets]
    probed = [pair for pair in pairs if pair[0] == sources[0] or pair[1] == targets[0]]
    for trial in range(20):
        rng, own = random.Random(trial), replace(constant, seed=trial)

        def taken(src: str, dst: str, port: int, own: HashStage = own) -> int:
            return way(crc, src, dst, port, 4) ^ way(own, src, dst, port, 4)

        ports = {pair: rng.sample(range(FIRST_PORT, LAST_PORT + 1), 12) for pair in rng.sample(probed, 5)}
        sent = [Probe(*pair, port, taken(*pair, port)) for pair in ports for port in ports[pair]]
        learned = learn(sent, {pair: range(4) for pair in pairs}, leaves=dict.fromkeys(sources, "r0/0"))
        assert {(found.pair.src, found.pair.dst) for found in learned} == ports.keys()
        for found in learned:
            ends = found.pair.src, found.pair.dst
            for uplink, known in found.pair.ports.items():
                assert {taken(*ends, port) for port in known} == {uplink}


def test_a_fabric_that_sprays_is_not_learned() -> None:
    sent = [Probe(*PAIR, 50_000, 0), Probe(*PAIR, 50_000, 1)]
    (learned,) = learn(sent, {PAIR: (0, 1)})
    assert learned.pair.ports == {}
    assert "two ways" in learned.why


def test_repeated_probes_raise_the_confidence_of_a_table() -> None:
    sent = [Probe(*PAIR, 50_000, 2)] * 4 + [Probe(*PAIR, 50_001, 5)]
    (learned,) = learn(sent, {PAIR: (2, 5, 9)})
    assert learned.pair.confidence == pytest.approx(1 - 3**-3)
    assert learned.unseen == (9,)


def test_a_table_is_learned_anew_after_a_change_of_the_topology() -> None:
    one = learn([Probe(*PAIR, 50_000, 0)], {PAIR: (0, 1)})
    other = learn([Probe("10.0.0.2", "10.0.1.1", 50_000, 1)], {})
    first = table_of(one, "before")
    second = table_of(other, "before", first)
    third = table_of(other, "after", second)
    assert [len(table.pairs) for table in (first, second, third)] == [1, 2, 1]
    assert [table.version for table in (first, second, third)] == [1, 2, 3]


@pytest.mark.parametrize("uplinks", [2, 4, 8, 16])
def test_probing_without_a_model_takes_what_chance_says(uplinks: int) -> None:
    rng, stage = random.Random(uplinks), HashStage("murmur3")
    taken = []
    for trial in range(200):
        left, count = set(range(uplinks)), 0
        while left:
            count += 1
            left.discard(
                way(stage, "10.0.0.1", f"10.1.{trial}.1", rng.randrange(FIRST_PORT, LAST_PORT + 1), uplinks)
            )
        taken.append(count)
    assert sum(taken) / len(taken) == pytest.approx(expected_probes(uplinks), rel=0.25)


@given(st.integers(1, 20), st.data())
def test_a_fit_is_exact(bits: int, data: st.DataObject) -> None:
    flips = data.draw(st.lists(st.integers(0, 255), min_size=bits, max_size=bits))
    constant = data.draw(st.integers(0, 255))

    def function(value: int) -> int:
        result = constant
        for bit in range(bits):
            if value >> bit & 1:
                result ^= flips[bit]
        return result

    found = fit(bits, [(value, function(value)) for value in (0, *(1 << bit for bit in range(bits)))])
    assert found is not None
    assert found.complete
    value = data.draw(st.integers(0, 2**bits - 1))
    assert found.predict(value) == function(value)
    assert not found.add(value, function(value) ^ 1)


def test_a_fit_predicts_only_what_follows() -> None:
    found = AffineFit(14)
    found.add(0b01, 1)
    found.add(0b10, 2)
    assert found.predict(0b11) is None
    found.add(0b00, 0)
    assert found.predict(0b11) == 3
