//! Bodies that say what they are and show damage: `run:producer:seq:mode:hash`.

/// A body that no other call of the run makes.
pub fn make(run: u64, producer: u64, seq: u64, mode: &str) -> String {
    let text = format!("{run}:{producer}:{seq}:{mode}");
    let hash = hash(text.as_bytes());
    format!("{text}:{hash:016x}")
}

/// Whether a body is one that [`make`] made, unchanged.
pub fn is_intact(body: &str) -> bool {
    let Some((text, given)) = body.rsplit_once(':') else {
        return false;
    };
    given == format!("{:016x}", hash(text.as_bytes()))
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_shows() {
        let body = make(1, 2, 3, "R1");
        assert!(body.starts_with("1:2:3:R1:"));
        assert!(is_intact(&body));
        assert!(!is_intact(&body.replace("R1", "R2")));
        assert!(!is_intact(&body[..body.len() - 1]));
        assert!(!is_intact(""));
    }
}
