//! Which network a client comes from: what is counted, so that one who has many addresses counts as one.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 address: that much is given to one customer (RFC 6177).
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
    fn an_ipv6_network_is_one_and_an_ipv4_address_is_one() {
        let subnet = |text: &str| Subnet::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(subnet("2001:db8::1"), subnet("2001:db8::ffff:1:2:3"));
        assert_ne!(subnet("2001:db8::1"), subnet("2001:db8:0:1::1"));
        assert_ne!(subnet("10.0.0.1"), subnet("10.0.0.2"));
        assert_eq!(subnet("::ffff:10.0.0.1"), subnet("10.0.0.1"));
    }
}
