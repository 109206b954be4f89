//! The nodes file: what is read is exactly what would be written.

use disque_core::nodes_file::NodesFile;

/// Reads the bytes as they are, and with the checksum that they should have.
pub fn nodes_file(bytes: &[u8]) {
    check(bytes);
    let sum = format!("checksum {:08x}\n", crc32fast::hash(bytes));
    check(&[bytes, sum.as_bytes()].concat());
}

fn check(text: &[u8]) {
    if let Ok(file) = NodesFile::parse(text) {
        assert_eq!(
            file.to_text(),
            String::from_utf8_lossy(text),
            "read, but written otherwise"
        );
    }
}
