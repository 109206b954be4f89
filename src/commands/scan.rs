//! QSCAN and JSCAN.

use super::reply::write_job_details;
use super::words::{Keyword, Words, MAX_COUNT};
use super::words_of;
use crate::acl::Subject;
use crate::ffi::{Access, Call, Reply};
use crate::host::{self, query, Host};
use disque_core::clock::Now;
use disque_core::error::Error;
use disque_core::node::scan::{state_name, JobFilter, Limits, Page, QueueFilter};

/// The syntax of QSCAN.
pub const QSCAN_USAGE: &str =
    "QSCAN [cursor] [COUNT n] [BUSYLOOP] [MINLEN n] [MAXLEN n] [IMPORTRATE n]";
/// The syntax of JSCAN.
pub const JSCAN_USAGE: &str =
    "JSCAN [cursor] [COUNT n] [BUSYLOOP] [QUEUE q] [STATE s ...] [REPLY all|id]";

const DEFAULT_COUNT: u64 = 100;
/// Elements that a call looks at, at most, for each that it may return. With a
/// filter that lets little through it ends with few, and a cursor to go on.
const VISITS_PER_ELEMENT: u64 = 10;
const MIN_VISITS: u64 = 1_000;
/// No call looks at more: some milliseconds' worth.
const MAX_VISITS: u64 = 10_000;
/// Nor does it answer with many more bytes of names and bodies than this.
const PAGE_BYTES: usize = 4 << 20;
/// The same for a step of a scan in the background.
const STEP_BYTES: usize = 1 << 20;

/// What to scan for.
#[derive(Debug)]
pub struct Scan {
    what: What,
    cursor: u64,
    count: u64,
    /// Go on to the end without giving the client a cursor.
    busy_loop: bool,
}

#[derive(Debug)]
enum What {
    Queues(QueueFilter),
    Jobs { filter: JobFilter, details: bool },
}

/// `QSCAN ...`
pub fn qscan(call: &mut Call<'_>) {
    scan(call, parse_qscan);
}

/// `JSCAN ...`
pub fn jscan(call: &mut Call<'_>) {
    scan(call, parse_jscan);
}

fn scan(call: &mut Call<'_>, parse: fn(&[&[u8]]) -> Result<Scan, Error>) {
    query(call, |host, now, call| {
        let scan = parse(&words_of(call))?;
        if scan.busy_loop && host.can_block(call) {
            return host.start_scan(scan, call);
        }
        let subject = Subject::of(call.ctx());
        let visits = (scan.count.saturating_mul(VISITS_PER_ELEMENT)).clamp(MIN_VISITS, MAX_VISITS);
        let page = scan.page(
            host,
            &subject,
            Limits {
                count: scan.count.min(visits) as usize,
                visits: visits as usize,
                bytes: scan.bytes_per_page(PAGE_BYTES),
            },
        );
        let reply = call.reply();
        reply.array(2);
        reply.bulk(page.cursor.to_string());
        reply.array(page.keys.len());
        scan.write(host, now, &page, reply);
        Ok(())
    });
}

impl Scan {
    /// One step of a scan in the background: writes what it finds and returns
    /// whether that was the last.
    pub fn step(
        &mut self,
        host: &Host,
        now: Now,
        subject: &Subject<'_>,
        reply: &mut Reply<'_>,
    ) -> bool {
        const STEP: usize = 500;
        let limits = Limits {
            count: STEP,
            visits: STEP,
            bytes: self.bytes_per_page(STEP_BYTES),
        };
        let page = self.page(host, subject, limits);
        self.write(host, now, &page, reply);
        self.cursor = page.cursor;
        self.cursor == 0
    }

    /// How many bytes of names and bodies a part may have; ids alone have none.
    fn bytes_per_page(&self, max: usize) -> usize {
        match self.what {
            What::Jobs { details: false, .. } => usize::MAX,
            _ => max,
        }
    }

    /// About how many bytes the whole answer takes, as far as that is known
    /// without looking at the jobs or queues.
    pub fn answer_bytes(&self, host: &Host) -> u64 {
        const ID: u64 = 50;
        const DETAILS: u64 = 700;
        let totals = host.node.totals();
        let jobs: u64 = totals.jobs.iter().sum();
        match self.what {
            What::Queues(_) => totals.queue_bytes as u64,
            What::Jobs { details: false, .. } => jobs * ID,
            What::Jobs { details: true, .. } => jobs * DETAILS + totals.job_bytes as u64,
        }
    }

    /// The next part, without what the subject may not see.
    fn page(&self, host: &Host, subject: &Subject<'_>, limits: Limits) -> Page {
        let node = &host.node;
        let mut page = match &self.what {
            What::Queues(filter) => node.scan_queues(host::now(), self.cursor, limits, filter),
            What::Jobs { filter, .. } => node.scan_jobs(self.cursor, limits, filter),
        };
        if !subject.is_unrestricted() {
            page.keys.retain(|&key| {
                let queue = match self.what {
                    What::Queues(_) => node.queue_name_at(key),
                    What::Jobs { .. } => &node.queue_of(node.job(key)).name,
                };
                subject.may(Access::Read, queue)
            });
        }
        page
    }

    fn write(&self, host: &Host, now: Now, page: &Page, reply: &mut Reply<'_>) {
        let node = &host.node;
        for &key in &page.keys {
            match self.what {
                What::Queues(_) => reply.bulk(node.queue_name_at(key)),
                What::Jobs { details: false, .. } => reply.bulk(node.job(key).id.text()),
                What::Jobs { details: true, .. } => {
                    write_job_details(reply, node, &node.view(now, key))
                }
            }
        }
    }
}

/// Reads the words after QSCAN.
pub fn parse_qscan(words: &[&[u8]]) -> Result<Scan, Error> {
    let mut filter = QueueFilter::default();
    let mut common = Common::default();
    let mut words = Words::new(words, QSCAN_USAGE);
    while let Some(word) = words.option()? {
        let mut number = |what| words.count(what, "jobs", (0, MAX_COUNT)).map(Some);
        match word.as_bytes() {
            b"MINLEN" => filter.min_len = number("MINLEN")?,
            b"MAXLEN" => filter.max_len = number("MAXLEN")?,
            b"IMPORTRATE" => filter.import_rate = number("IMPORTRATE")?,
            _ => common.take(word, &mut words)?,
        }
    }
    Ok(common.scan(What::Queues(filter)))
}

/// Reads the words after JSCAN.
pub fn parse_jscan(words: &[&[u8]]) -> Result<Scan, Error> {
    let mut filter = JobFilter::default();
    let mut details = false;
    let mut common = Common::default();
    let mut words = Words::new(words, JSCAN_USAGE);
    while let Some(word) = words.option()? {
        match word.as_bytes() {
            b"QUEUE" => filter.queue = Some(words.word()?.into()),
            b"STATE" => add_state(&mut filter, state(&mut words)?),
            b"REPLY" => details = wants_details(&mut words)?,
            // After STATE a state may stand without the word before it.
            other => match state_name(other).filter(|_| !filter.states.is_empty()) {
                Some(name) => add_state(&mut filter, name),
                None => common.take(word, &mut words)?,
            },
        }
    }
    Ok(common.scan(What::Jobs { filter, details }))
}

/// Each state once: the filter is asked for every job that is looked at.
fn add_state(filter: &mut JobFilter, name: &'static str) {
    if !filter.states.contains(&name) {
        filter.states.push(name);
    }
}

fn state(words: &mut Words<'_, '_>) -> Result<&'static str, Error> {
    let word = words.word()?;
    state_name(word).ok_or_else(|| words.unknown())
}

fn wants_details(words: &mut Words<'_, '_>) -> Result<bool, Error> {
    match Keyword::of(words.word()?).as_ref().map(Keyword::as_bytes) {
        Some(b"ALL") => Ok(true),
        Some(b"ID") => Ok(false),
        _ => Err(words.unknown()),
    }
}

/// The options of both commands, and the cursor, which may stand anywhere.
struct Common {
    cursor: Option<u64>,
    count: u64,
    busy_loop: bool,
}

impl Default for Common {
    fn default() -> Common {
        Common {
            cursor: None,
            count: DEFAULT_COUNT,
            busy_loop: false,
        }
    }
}

impl Common {
    fn take(&mut self, word: Keyword, words: &mut Words<'_, '_>) -> Result<(), Error> {
        match word.as_bytes() {
            b"COUNT" => self.count = words.count("COUNT", "elements", (1, MAX_COUNT))?,
            b"BUSYLOOP" => self.busy_loop = true,
            digits if self.cursor.is_none() => {
                let cursor = super::words::decimal(digits).ok_or_else(|| words.unknown())?;
                self.cursor = Some(cursor);
            }
            _ => return Err(words.unknown()),
        }
        Ok(())
    }

    fn scan(self, what: What) -> Scan {
        Scan {
            what,
            cursor: self.cursor.unwrap_or(0),
            count: self.count,
            busy_loop: self.busy_loop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&[u8]> {
        text.split_whitespace().map(str::as_bytes).collect()
    }

    #[test]
    fn the_cursor_may_stand_anywhere_or_be_missing() {
        for (text, cursor) in [
            ("", 0),
            ("7", 7),
            ("COUNT 5 7", 7),
            ("BUSYLOOP 7 QUEUE q", 7),
            ("STATE active 7", 7),
        ] {
            assert_eq!(parse_jscan(&words(text)).unwrap().cursor, cursor, "{text}");
        }
        assert!(parse_jscan(&words("7 8")).is_err());
        assert!(parse_qscan(&words("nonsense")).is_err());
    }

    #[test]
    fn several_states_with_one_word_or_each_with_its_own() {
        for text in ["STATE active queued", "STATE ACTIVE STATE queued"] {
            let scan = parse_jscan(&words(text)).unwrap();
            let What::Jobs { filter, .. } = scan.what else {
                panic!("{text}");
            };
            assert_eq!(filter.states, ["active", "queued"], "{text}");
        }
        assert!(parse_jscan(&words("STATE asleep")).is_err());
    }

    #[test]
    fn filters_and_reply() {
        let scan = parse_jscan(&words("queue q reply ALL count 3 busyloop")).unwrap();
        assert!(scan.busy_loop);
        assert_eq!(scan.count, 3);
        let What::Jobs { filter, details } = scan.what else {
            panic!("not a scan of jobs");
        };
        assert_eq!((filter.queue.as_deref(), details), (Some(&b"q"[..]), true));
    }
}
