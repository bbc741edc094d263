//! Addresses of nodes on many machines: `machine/session/node`.

use std::fmt;
use std::str::FromStr;

use nerve_types::name::{self, NameError};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The address of a node. Each part follows the rule of [`nerve_types::name`].
///
/// ```
/// use nerve_cluster::address::Address;
/// let address: Address = "build-1/default/reviewer".parse().unwrap();
/// assert_eq!((address.machine(), address.node()), ("build-1", "reviewer"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    machine: String,
    session: String,
    node: String,
}

/// A text that is not the address of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The number of parts is not three.
    #[error("a node's address has three parts, machine/session/node, not {0}")]
    Parts(usize),
    /// A part is not a name.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Address {
    /// Creates an address from its parts.
    ///
    /// # Errors
    /// [`AddressError::Name`] quotes the first invalid part.
    pub fn new(machine: &str, session: &str, node: &str) -> Result<Address, AddressError> {
        name::check("machine", machine)?;
        name::check("session", session)?;
        name::check("node", node)?;
        Ok(Address { machine: machine.into(), session: session.into(), node: node.into() })
    }

    /// Returns the machine's name.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Returns the session's name.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the node's name.
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(machine), Some(session), Some(node), None) => Address::new(machine, session, node),
            _ => Err(AddressError::Parts(text.split('/').count())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.machine, self.session, self.node)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, AddressError};

    #[test]
    fn address_survives_display_and_parse() {
        let address = Address::new("build-1", "default", "me").unwrap();
        assert_eq!(address.to_string(), "build-1/default/me");
        assert_eq!(address.to_string().parse(), Ok(address));
    }

    #[test]
    fn wrong_number_of_parts_is_rejected() {
        for (text, parts) in [("", 1), ("me", 1), ("default/me", 2), ("a/b/c/d", 4)] {
            assert_eq!(text.parse::<Address>(), Err(AddressError::Parts(parts)), "{text:?}");
        }
    }

    #[test]
    fn invalid_part_is_rejected() {
        for text in ["/default/me", "a//me", "a/b/", "../b/c", "A/b/c"] {
            assert!(matches!(text.parse::<Address>(), Err(AddressError::Name(_))), "{text:?}");
        }
    }

    #[test]
    fn invalid_address_in_json_is_rejected() {
        let address: Address = serde_json::from_str(r#""a/b/c""#).unwrap();
        assert_eq!(serde_json::to_string(&address).unwrap(), r#""a/b/c""#);
        assert!(serde_json::from_str::<Address>(r#""a/b""#).is_err());
    }
}
