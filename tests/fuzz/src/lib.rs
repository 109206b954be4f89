//! What the fuzz targets on the core and the bus do with an input.
//!
//! They stand here and not beside the fuzzer's entries in `fuzz/`, which need a
//! nightly compiler, so that their corpora replay as ordinary tests.
#![forbid(unsafe_code)]

mod auxiliary_data;
mod draw;
mod frames;
mod link;
mod nodes_file;
mod operations;
mod records;

pub use auxiliary_data::auxiliary_data;
pub use frames::frames;
pub use link::link;
pub use nodes_file::nodes_file;
pub use operations::operations;
pub use records::records;

#[cfg(test)]
mod tests {
    use disque_testing::corpus::replay;
    use proptest::prelude::*;

    #[test]
    fn auxiliary_data_replay() {
        replay("auxiliary_data", super::auxiliary_data);
    }

    #[test]
    fn frames_replay() {
        replay("frames", super::frames);
    }

    #[test]
    fn links_replay() {
        replay("link", super::link);
    }

    proptest! {
        #[test]
        fn links_bear_whatever_comes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            super::link(&bytes);
        }
    }

    #[test]
    fn nodes_files_replay() {
        replay("nodes_file", super::nodes_file);
    }

    #[test]
    fn operations_replay() {
        replay("operations", super::operations);
    }

    #[test]
    fn records_replay() {
        replay("records", super::records);
    }
}
