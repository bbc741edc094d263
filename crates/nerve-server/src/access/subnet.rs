//! The network that a client counts for, so that a client with many addresses counts once.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 address, which is what one customer usually gets (RFC 6177).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Subnet(IpAddr);

impl From<IpAddr> for Subnet {
    fn from(address: IpAddr) -> Subnet {
        match address.to_canonical() {
            IpAddr::V6(address) => Subnet(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
            address => Subnet(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_prefix_and_ipv4_address_are_one_subnet() {
        let subnet = |text: &str| Subnet::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(subnet("2001:db8::1"), subnet("2001:db8::ffff:1:2:3"));
        assert_ne!(subnet("2001:db8::1"), subnet("2001:db8:0:1::1"));
        assert_ne!(subnet("10.0.0.1"), subnet("10.0.0.2"));
        assert_eq!(subnet("::ffff:10.0.0.1"), subnet("10.0.0.1"));
    }
}
