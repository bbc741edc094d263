//! Writes a ZIP archive without compression (APPNOTE.TXT 6.3.10).

/// The files of an archive and the directory that ends it.
#[derive(Debug, Default)]
pub(super) struct ZipWriter {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

/// Signatures of the headers of a file, of its directory entry and of the end.
const FILE: u32 = 0x0403_4b50;
const ENTRY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
/// 1980-01-01, the earliest date.
const DATE: u32 = 0x0021_0000;
/// Version needed to extract, and the flag for names in UTF-8.
const VERSION_AND_FLAGS: [u8; 4] = [20, 0, 0, 8];

impl ZipWriter {
    /// Adds a file. Names and sizes are far below the format's limits.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) {
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_len = u16::try_from(name.len()).unwrap_or(u16::MAX);
        let offset = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        // From the version to the length of the extra field: the same in both headers.
        let mut common = VERSION_AND_FLAGS.to_vec();
        common.extend([0, 0]);
        for number in [DATE, crc32(content), size, size] {
            common.extend(number.to_le_bytes());
        }
        common.extend(name_len.to_le_bytes());
        common.extend([0, 0]);
        self.bytes.extend(FILE.to_le_bytes());
        self.bytes.extend(&common);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(content);
        self.directory.extend(ENTRY.to_le_bytes());
        self.directory.extend([20, 0]);
        self.directory.extend(&common);
        // No comment, disk 0, no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count += 1;
    }

    /// Returns the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let offset = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let size = u32::try_from(self.directory.len()).unwrap_or(u32::MAX);
        self.bytes.extend(&self.directory);
        self.bytes.extend(END.to_le_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(self.count.to_le_bytes());
        self.bytes.extend(self.count.to_le_bytes());
        self.bytes.extend(size.to_le_bytes());
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend([0; 2]);
        self.bytes
    }
}

/// Returns the CRC-32 of ISO 3309.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn archive_ends_with_a_directory_of_its_files() {
        let mut zip = ZipWriter::default();
        zip.add("a.txt", b"one");
        zip.add("b/c.txt", b"two");
        let bytes = zip.finish();
        assert!(bytes.starts_with(b"PK\x03\x04"));
        let end = &bytes[bytes.len() - 22..];
        assert_eq!((&end[..4], &end[8..12]), (&b"PK\x05\x06"[..], &[2, 0, 2, 0][..]));
        let offset = u32::from_le_bytes(end[16..20].try_into().unwrap()) as usize;
        assert_eq!(&bytes[offset..offset + 4], b"PK\x01\x02");
    }
}
