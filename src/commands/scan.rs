//! QSCAN and JSCAN.

use super::reply::write_job_details;
use super::words::{Words, MAX_COUNT};
use super::words_of;
use crate::acl::Subject;
use crate::ffi::{Call, Reply};
use crate::host::{query, Host};
use disque_core::clock::Now;
use disque_core::error::Error;
use disque_core::node::scan::{state_name, JobFilter, Page, QueueFilter};

/// The syntax of QSCAN.
pub const QSCAN_USAGE: &str =
    "QSCAN [cursor] [COUNT n] [BUSYLOOP] [MINLEN n] [MAXLEN n] [IMPORTRATE n]";
/// The syntax of JSCAN.
pub const JSCAN_USAGE: &str =
    "JSCAN [cursor] [COUNT n] [BUSYLOOP] [QUEUE q] [STATE s ...] [REPLY all|id]";

const DEFAULT_COUNT: u64 = 100;
/// Elements that one call looks at, at most, for each that it may return: with
/// a filter that lets little through it ends with few, and a cursor to go on.
const VISITS_PER_ELEMENT: u64 = 10;
const MIN_VISITS: u64 = 1_000;
const MAX_VISITS: u64 = 20_000;
