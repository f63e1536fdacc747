"""Who a client is, and how many of the places it may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from longtail.errors import DataError

GREED = 3  # an address may hold up to this many times the places that are still free
NET = 64  # bits of an IPv6 address that make one client: whoever has one address has all of its /64

Network = IPv4Network | IPv6Network


class FairShare:
    """Places of which an address may hold `GREED` times as many as are free.

    One address alone gets three quarters of them, two get three sevenths each, and whoever comes next always finds
    some (Choudhury and Hahne, "Dynamic queue length thresholds", 1998).

    Args:
        places: how many there are.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0
        self._held: Counter[Hashable] = Counter()

    def allows(self, address: Hashable) -> bool:
        """Tells whether an address may take more; None is any address and may take all.

        Args:
            address: of the client.

        Returns:
            Whether it may.
        """
        free = self.places - self.taken
        return free > 0 and (address is None or self._held[address] < GREED * free)

    def take(self, address: Hashable, places: int) -> None:
        """Takes places, or gives them back where `places` is negative.

        Args:
            address: of the client.
            places: how many.
        """
        self.taken += places
        self._held[address] += places
        if not self._held[address]:
            del self._held[address]


def client_of(address: str) -> str:
    """The client that an address stands for.

    Args:
        address: of IPv4 or IPv6.

    Returns:
        The address itself, or the /64 network of an IPv6 address; other words as they are.
    """
    found = parsed(address)
    if isinstance(found, IPv6Address):
        return str(IPv6Network((int(found) >> (128 - NET) << (128 - NET), NET)))
    return address if found is None else str(found)


def parsed(address: str) -> IPv4Address | IPv6Address | None:
    """Reads an address.

    Args:
        address: as it is written, in brackets or with a port too.

    Returns:
        The address, an IPv4 one also where it is written as IPv6; None where it is none.
    """
    word = address.strip()
    if word.startswith("["):
        word = word[1:].partition("]")[0]
    elif word.count(":") == 1:
        word = word.partition(":")[0]
    try:
        found = ip_address(word.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def networks(words: Iterable[str]) -> tuple[Network, ...]:
    """Reads the addresses of trusted proxies.

    Args:
        words: addresses or networks.

    Returns:
        Networks.

    Raises:
        DataError: a word is neither.
    """
    found = []
    for word in words:
        try:
            found.append(ip_network(word))
        except ValueError:
            raise DataError(
                f"--forwarded-allow-ips {word}: not an address or a network; write 10.0.0.7 or 10.0.0.0/8"
            ) from None
    return tuple(found)


def forwarded(peer: str, header: Iterable[str], trusted: tuple[Network, ...]) -> str:
    """The client behind trusted proxies.

    Every proxy appends the address that it was asked from, and a client may send such a header itself. So the list is
    read from its end, and the first address that is not a trusted proxy is the client.

    Args:
        peer: the address that is connected.
        header: the values of X-Forwarded-For, in their order.
        trusted: networks of proxies.

    Returns:
        The client, as `client_of` has it.
    """
    client = peer
    words = [word for value in header for word in value.split(",")]
    while is_trusted(client, trusted) and words:
        found = parsed(words.pop())
        if found is None:
            break  # not an address: what stands before it cannot be believed either
        client = str(found)
    return client_of(client)


def is_trusted(address: str, trusted: tuple[Network, ...]) -> bool:
    """Tells whether an address is a trusted proxy.

    Args:
        address: the address.
        trusted: networks of proxies.

    Returns:
        Whether it is.
    """
    found = parsed(address) if trusted else None
    return found is not None and any(found in network for network in trusted)
