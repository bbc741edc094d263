//! Ids of machines and of the processes of their servers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// UUID of a machine, stored in its state folder. JSON has it as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u128);

/// One process of a server. Copies of a state folder can have the same boot counter, so the nonce tells their processes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instance {
    /// The machine.
    pub machine: MachineId,
    /// Starts of the server in this state folder, durable before the process uses it.
    pub boot: u64,
    /// Random number drawn at start.
    pub nonce: u64,
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for MachineId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MachineId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<MachineId, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(serde::de::Error::custom("a machine's id has exactly 32 hexadecimal digits"));
        }
        u128::from_str_radix(&text, 16).map(MachineId).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::MachineId;

    #[test]
    fn machine_id_has_exactly_32_hexadecimal_digits() {
        let json = format!("\"{}\"", MachineId(7));
        assert_eq!(serde_json::from_str::<MachineId>(&json).unwrap(), MachineId(7));
        for text in ["7", "+0000000000000000000000000000007", "0000000000000000000000000000000g", ""] {
            assert!(serde_json::from_str::<MachineId>(&format!("\"{text}\"")).is_err(), "{text:?}");
        }
    }
}
