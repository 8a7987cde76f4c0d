//! Classifies network addresses as public, private or neither.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not the public internet, as (first address, prefix length).
///
/// From the IANA special-purpose registry (RFC 6890 and its updates): all networks that are not globally
/// reachable, and the anycast relays to other networks.
const CLOSED_V4: [(Ipv4Addr, u32); 18] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network, unspecified
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carrier-grade NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, cloud metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24), // AMT relays
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(192, 175, 48, 0), 24), // AS112
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarking
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

/// The only range of IPv6 that is allocated as global unicast. All others are closed: loopback, unspecified,
/// mapped and compatible IPv4, NAT64 (`64:ff9b::/96` and `/48`), discard-only, unique local, link-local,
/// site-local, multicast.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Networks within [`GLOBAL_V6`] that are not the public internet.
const CLOSED_V6: [(Ipv6Addr, u32); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, Teredo, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: holds an IPv4 address
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether an address belongs to the public internet.
///
/// False for private, loopback, link-local, unique-local, carrier-grade NAT, multicast, documentation, reserved
/// and unspecified addresses, and for every IPv6 form that contains an IPv4 address (mapped, compatible, 6to4,
/// NAT64, Teredo), even if that address is public.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !CLOSED_V4.iter().any(|&(net, length)| {
            within(net.to_bits().into(), address.to_bits().into(), 32 - length)
        }),
        IpAddr::V6(address) => {
            let holds = |&(net, length): &(Ipv6Addr, u32)| {
                within(net.to_bits(), address.to_bits(), 128 - length)
            };
            holds(&GLOBAL_V6) && !CLOSED_V6.iter().any(holds)
        }
    }
}

/// Range of a cloud metadata service (`fd00:ec2::254`) within the private networks of IPv6.
const METADATA_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32);

/// Whether an address belongs to a private network (RFC 1918, RFC 4193).
///
/// False for loopback, link-local and cloud metadata addresses: their services trust every caller.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => {
            let (net, length) = METADATA_V6;
            let is_metadata = within(net.to_bits(), address.to_bits(), 128 - length);
            address.is_unique_local() && !is_metadata
        }
    }
}

/// The address that rate limits count a client by. An IPv6 address is reduced to its /64, the network of one
/// subscriber.
pub fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

/// Whether two addresses differ only in their last `host_bits` bits.
fn within(net: u128, address: u128, host_bits: u32) -> bool {
    (net ^ address) >> host_bits == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_told_apart() {
        let closed = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.52.193.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:53aa:64c:0:0:0:1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ];
        for address in closed {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let open = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450:4001:82a::200e",
            "3ffe::1",
        ];
        for address in open {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
