"""Keys of the radios and of how their signals weaken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from fedmule.simulator.scenario.keys import (
    AtLeastHalf,
    Chosen,
    NotNegative,
    OwnClass,
    Part,
    Positive,
    PositiveSpan,
    PositiveTriple,
    Share,
    key,
    one_of,
    short_for,
)


class DiscRadio(Part):
    makes = "radio.radios.disc:Disc"
    kind: Literal["disc"] = key("disc", "one rate within a range, nothing beyond or through a lossy obstacle")
    range_m: Positive = key(100.0, "its range, m")
    rate_mbps: Positive = key(10.0, "useful rate, Mb/s")
    latency_s: NotNegative = key(0.01, "from last byte sent to last byte usable, s")
    setup_s: NotNegative = key(1.0, "time before the first byte of a contact, s")


class PropagationKeys(Part):
    """Common keys of propagation models."""

    kind: str
    frequency_mhz: Positive | None = key(None, "carrier; by default the radio's, MHz")


class FriisPropagation(PropagationKeys):
    makes = "radio.propagation:Friis"
    kind: Literal["friis"] = key("friis", "free space")


class LogDistancePropagation(PropagationKeys):
    makes = "radio.propagation:LogDistance"
    kind: Literal["log_distance"] = key("log_distance", "a loss at 1 m and an exponent")
    exponent: Positive = key(3.0, "path-loss exponent; for lora 2.32")
    reference_loss_db: float | None = key(
        None, "path loss at 1 m; by default that of free space at the carrier; for lora 59.35, dB"
    )


class TwoRayPropagation(PropagationKeys):
    makes = "radio.propagation:TwoRay"
    kind: Literal["two_ray"] = key("two_ray", "free space, and beyond the crossover the ground's reflection")
    height_m: PositiveSpan = key((1.5, 1.5), "heights of the two antennas, m")


class ThreeLogDistancePropagation(PropagationKeys):
    makes = "radio.propagation:ThreeLogDistance"
    kind: Literal["three_log_distance"] = key("three_log_distance", "an exponent from each of three distances on")
    distances_m: PositiveTriple = key((1.0, 200.0, 500.0), "where the exponents begin, ascending, m")
    exponents: PositiveTriple = key((1.9, 3.8, 3.8), "path-loss exponents")
    reference_loss_db: float | None = key(
        None, "path loss at the first distance; by default that of free space at the carrier, dB"
    )

    @field_validator("distances_m")
    @classmethod
    def _ascending(cls, value: Any) -> Any:
        return _must_ascend(value)


class NakagamiPropagation(PropagationKeys):
    makes = "radio.propagation:Nakagami"
    kind: Literal["nakagami"] = key("nakagami", "log-distance in the mean; every frame fades independently")
    exponent: Positive = key(3.0, "path-loss exponent")
    reference_loss_db: float | None = key(None, "path loss at 1 m; by default that of free space at the carrier, dB")
    m: Annotated[tuple[AtLeastHalf, AtLeastHalf, AtLeastHalf], Field(strict=False)] = key(
        (1.5, 0.75, 0.75), "Nakagami's shape: near, farther, far; 1 is Rayleigh fading"
    )
    from_m: PositiveSpan = key((80.0, 200.0), "where farther and far begin, m")

    @field_validator("from_m")
    @classmethod
    def _ascending(cls, value: Any) -> Any:
        return _must_ascend(value)


def _must_ascend(value: Any) -> Any:
    if list(value) != sorted(set(value)):
        raise PydanticCustomError("ascending", "must ascend")
    return value


class OwnPropagation(OwnClass):
    """A propagation model of the user's own."""


if TYPE_CHECKING:
    Propagation = Chosen
else:
    Propagation = one_of(
        "log_distance",
        FriisPropagation,
        LogDistancePropagation,
        TwoRayPropagation,
        ThreeLogDistancePropagation,
        NakagamiPropagation,
        own=OwnPropagation,
    )


class ShadowingKeys(Part):
    makes = "radio.propagation:Shadowing"
    db: Positive = key(6.0, "standard deviation, dB")
    distance_m: Positive = key(25.0, "distance at which the correlation has fallen to 1/e, m")


class PhysicalRadio(Part):
    """Common keys of radios with a link budget."""

    kind: str
    range_m: Annotated[float, Field(ge=1)] | None = key(
        None, "distance at which an unobstructed link just closes; sets the transmit power, m"
    )
    shadowing: ShadowingKeys | None = key(None, "shadowing that varies with position; by default none")


SHORT_KEYS = ("exponent", "reference_loss_db")  # of the log-distance model, in the table of wifi_direct itself


class WifiDirectRadio(PhysicalRadio):
    makes = "radio.radios.wifi_direct:WifiDirect"
    kind: Literal["wifi_direct"] = key("wifi_direct", "802.11n, 20 MHz at 2.4 GHz, or ac, 80 MHz at 5 GHz; one stream")
    tx_power_dbm: float = key(16.0, "transmit power where range_m is not given, dBm")
    exponent: Positive | None = key(None, "path-loss exponent, short for propagation.exponent; by default 3")
    reference_loss_db: float | None = key(
        None, "path loss at 1 m, short for propagation.reference_loss_db; by default that of free space, dB"
    )
    cutoff_dbm: float = key(-82.0, "weakest signal that is heard, dBm")
    setup_s: NotNegative = key(3.0, "forming the group before the first byte of a contact, s")
    latency_s: NotNegative = key(0.002, "from last byte sent to last byte usable, s")
    standard: Literal["n", "ac"] = key("n", "802.11n or 802.11ac")
    propagation: Propagation | None = key(None, "how the signal weakens; by default log_distance")

    @field_validator("propagation")
    @classmethod
    def _said_once(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse short keys beside a propagation model, which has its own."""
        twice = [name for name in SHORT_KEYS if info.data.get(name) is not None]
        if value is not None and twice:
            keys = " and ".join(f"radio.{name}" for name in twice)
            raise PydanticCustomError("said_twice", "has such keys of its own: leave {keys} out", {"keys": keys})
        return value

    def arguments(self) -> dict[str, Any]:
        """Turn the short keys into a propagation model."""
        keys = super().arguments()
        short = {name: keys.pop(name) for name in SHORT_KEYS}
        if keys["propagation"] is None:
            keys["propagation"] = LogDistancePropagation(**{k: v for k, v in short.items() if v is not None})
        return keys


class ZigbeeRadio(PhysicalRadio):
    makes = "radio.radios.zigbee:Zigbee"
    kind: Literal["zigbee"] = key("zigbee", "IEEE 802.15.4 at 2.4 GHz, 250 kb/s, frames of 100 bytes acknowledged")
    tx_power_dbm: float = key(0.0, "transmit power where range_m is not given, dBm")
    setup_s: NotNegative = key(1.0, "joining before the first byte of a contact, s")
    latency_s: NotNegative = key(0.005, "from last byte sent to last byte usable, s")
    propagation: Propagation = key("log_distance", "how the signal weakens")


BlePhys = tuple[Literal["2M", "1M", "coded_s2", "coded_s8"], ...]


class BleRadio(PhysicalRadio):
    makes = "radio.radios.ble:Ble"
    kind: Literal["ble"] = key("ble", "Bluetooth Low Energy 5, one connection with packets of 251 bytes")
    tx_power_dbm: float = key(0.0, "transmit power where range_m is not given, dBm")
    phys: Annotated[BlePhys, Field(strict=False, min_length=1)] = key(
        ("2M", "1M", "coded_s2", "coded_s8"), "PHYs it may use; the one with the highest goodput is used"
    )
    setup_s: NotNegative = key(1.0, "advertising and connecting before the first byte of a contact, s")
    latency_s: NotNegative = key(0.0075, "from last byte sent to last byte usable, s")
    propagation: Propagation = key("log_distance", "how the signal weakens")


SpreadingFactors = tuple[Annotated[int, Field(ge=7, le=12)], ...]


class LoraRadio(PhysicalRadio):
    makes = "radio.radios.lora:Lora"
    kind: Literal["lora"] = key("lora", "LoRa at 868 MHz with the frames of LoRaWAN, coding rate 4/5")
    tx_power_dbm: float = key(14.0, "transmit power where range_m is not given, dBm")
    spreading_factors: Annotated[SpreadingFactors, Field(strict=False, min_length=1)] = key(
        (7, 8, 9, 10, 11, 12), "spreading factors it may use; the one with the highest goodput is used"
    )
    bandwidth_khz: Positive = key(125.0, "bandwidth, kHz")
    duty_cycle: Annotated[float, Field(gt=0, le=1)] = key(0.01, "largest share of the time a device may send")
    setup_s: NotNegative = key(2.0, "before the first byte of a contact, s")
    latency_s: NotNegative = key(0.1, "from last byte sent to last byte usable, s")
    # Measured from a car in Oulu: 128.95 dB at 1 km and exponent 2.32 (Petäjäjärvi et al., ITST 2015).
    propagation: Annotated[Propagation, short_for("log_distance", exponent=2.32, reference_loss_db=59.35)] = key(
        "log_distance", "how the signal weakens"
    )


class AcousticRadio(PhysicalRadio):
    makes = "radio.radios.acoustic:Acoustic"
    kind: Literal["acoustic"] = key("acoustic", "sound under water: spreading, Thorp's absorption, 1,500 m/s")
    source_level_db: float = key(170.0, "source level where range_m is not given, dB re 1 µPa at 1 m")
    frequency_khz: Positive = key(25.0, "carrier, kHz")
    bandwidth_khz: Positive = key(4.0, "bandwidth, kHz")
    spreading: Annotated[float, Field(ge=1, le=2)] = key(1.5, "1 in shallow water (cylinders) to 2 in deep (spheres)")
    shipping: Share = key(0.5, "shipping activity, for the noise")
    wind_mps: NotNegative = key(5.0, "wind at the surface, for the noise, m/s")
    setup_s: NotNegative = key(2.0, "before the first byte of a contact, s")
    latency_s: NotNegative = key(0.1, "from last byte heard to last byte usable, without the travel time of sound, s")


class OwnRadio(OwnClass):
    """A radio of the user's own."""

    provided = ("draw",)


if TYPE_CHECKING:
    Radio = Chosen
else:
    Radio = one_of(
        "wifi_direct",
        DiscRadio,
        WifiDirectRadio,
        ZigbeeRadio,
        BleRadio,
        LoraRadio,
        AcousticRadio,
        own=OwnRadio,
    )
