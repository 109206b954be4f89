//! Histories made by hand, each with one broken promise, and their sound twins.

use super::checker::check;
use super::history::{Delivery, Entry, Settling, Told, Wanted, What};
use super::Kind;
use disque_core::error::Error;
use disque_core::job_id::{IdGenerator, JobId};
use disque_core::span::Span;

/// A history in the making.
#[derive(Default)]
struct Story {
    entries: Vec<Entry>,
    at: u64,
    log: u64,
    calls: u64,
}

const RETRY: u64 = 1_000;
const TTL: u64 = 60_000;

fn id(number: u8) -> JobId {
    IdGenerator::new([0; 4], [number; 32]).next(Span::from_secs(60), true)
}

fn wanted(number: u8) -> Wanted {
    Wanted {
        queue: 0,
        body: vec![number],
        of_batch: 1,
        delay_ms: 0,
        retry_ms: RETRY,
        ttl_ms: TTL,
        max_len: None,
        replicate: Some(1),
    }
}

fn delivery(number: u8, attempt: u32) -> Delivery {
    Delivery {
        id: id(number),
        queue: 0,
        body: vec![number],
        attempt,
        nacks: 0,
        additional: 0,
    }
}

impl Story {
    fn at(&mut self, at: u64) -> &mut Story {
        self.at = at;
        self
    }

    fn tell(&mut self, what: What) -> &mut Story {
        self.log += 1;
        self.entries.push(Entry {
            at: self.at,
            wall: 1_000_000 + self.at,
            log: self.log,
            what,
        });
        self
    }

    fn add(&mut self, number: u8) -> &mut Story {
        self.add_as(number, wanted(number))
    }

    fn add_as(&mut self, number: u8, wanted: Wanted) -> &mut Story {
        let id = id(number);
        self.tell(What::Added { id, wanted })
    }

    fn ask(&mut self, timeout_ms: Option<u64>) -> &mut Story {
        self.calls += 1;
        self.tell(What::Asked {
            call: self.calls,
            queues: vec![0],
            count: 1,
            nohang: false,
            timeout_ms,
        })
    }

    fn told(&mut self, call: u64, told: Told) -> &mut Story {
        self.tell(What::Answered { call, told })
    }

    /// A GETJOB that gets this.
    fn get(&mut self, job: Delivery) -> &mut Story {
        self.ask(None);
        self.told(self.calls, Told::Jobs(vec![job]))
    }

    fn ack(&mut self, number: u8, count: usize) -> &mut Story {
        self.tell(What::Settled {
            how: Settling::Ack,
            ids: vec![id(number)],
            count,
        })
    }

    fn idle(&mut self, jobs: u64, length: u64) -> &mut Story {
        let lengths = vec![length];
        self.tell(What::CaughtUp { jobs, lengths })
    }

    #[track_caller]
    fn holds(&self) {
        assert_eq!(check(&self.entries), Ok(()));
    }

    #[track_caller]
    fn breaks(&self, kind: Kind) {
        let found = check(&self.entries).map_err(|violation| violation.kind);
        assert_eq!(found, Err(kind));
    }
}

fn story() -> Story {
    Story::default()
}

#[test]
fn a_life_without_trouble() {
    story()
        .add(1)
        .get(delivery(1, 1))
        .ack(1, 1)
        .idle(0, 0)
        .tell(What::Drained)
        .holds();
}

#[test]
fn lost() {
    story().add(1).idle(0, 0).breaks(Kind::Lost);
    story().add(1).tell(What::Drained).breaks(Kind::Lost);
    story()
        .add(1)
        .at(TTL)
        .idle(0, 0)
        .tell(What::Drained)
        .holds();
}

#[test]
fn phantom() {
    story().get(delivery(1, 1)).breaks(Kind::Phantom);
    let mut other = delivery(1, 1);
    other.body = b"other".to_vec();
    story().add(1).get(other).breaks(Kind::Phantom);
    let mut elsewhere = delivery(1, 1);
    elsewhere.queue = 1;
    story().add(1).get(elsewhere).breaks(Kind::Phantom);
}

#[test]
fn what_a_crash_took_does_not_come_back() {
    let mut gone = story();
    gone.add(1).tell(What::Crashed { kept: 0 });
    gone.tell(What::Restarted { complete: false });
    gone.idle(0, 0).holds();
    gone.get(delivery(1, 1)).breaks(Kind::Phantom);
}

#[test]
fn duplicate() {
    let mut taken = story();
    taken.add(1).at(500).get(delivery(1, 1));
    taken.at(1_499).get(delivery(1, 2)).breaks(Kind::Duplicate);
    let mut taken = story();
    taken.add(1).at(500).get(delivery(1, 1));
    taken.at(1_500).get(delivery(1, 2)).holds();
}

#[test]
fn a_nack_explains_a_second_delivery() {
    let mut again = delivery(1, 2);
    again.nacks = 1;
    let nack = What::Requeued {
        nack: true,
        ids: vec![id(1)],
        count: 1,
    };
    let mut nacked = story();
    nacked.add(1).get(delivery(1, 1)).tell(nack);
    nacked.get(again).holds();
}

#[test]
fn a_delivery_that_was_undone_explains_another() {
    let deliveries = vec![(id(1), 1)];
    let mut undone = story();
    undone
        .add(1)
        .get(delivery(1, 1))
        .tell(What::Returned { deliveries });
    undone.idle(1, 1).get(delivery(1, 1)).holds();
}

#[test]
fn more_than_once() {
    let mut once = wanted(1);
    once.retry_ms = 0;
    let mut twice = story();
    twice.add_as(1, once.clone()).get(delivery(1, 1));
    twice
        .at(50_000)
        .get(delivery(1, 2))
        .breaks(Kind::MoreThanOnce);

    // The delivery was not written; a node that does not withhold the job
    // delivers it again.
    let mut crashed = story();
    crashed.add_as(1, once).get(delivery(1, 1));
    crashed.tell(What::Crashed { kept: 1 });
    crashed.tell(What::Restarted { complete: false });
    crashed.get(delivery(1, 1)).breaks(Kind::MoreThanOnce);
}

#[test]
fn too_early() {
    let mut delayed = wanted(1);
    delayed.delay_ms = 2_000;
    story()
        .add_as(1, delayed.clone())
        .at(1_999)
        .get(delivery(1, 1))
        .breaks(Kind::TooEarly);
    story()
        .add_as(1, delayed)
        .at(2_000)
        .get(delivery(1, 1))
        .holds();
}

#[test]
fn resurrected() {
    let mut acked = story();
    acked.add(1).get(delivery(1, 1)).ack(1, 1);
    acked
        .at(5_000)
        .get(delivery(1, 2))
        .breaks(Kind::Resurrected);
}

#[test]
fn expired() {
    let mut old = story();
    old.add(1).at(TTL).idle(0, 0);
    old.at(TTL + 1).get(delivery(1, 1)).breaks(Kind::Expired);
}

#[test]
fn order() {
    story()
        .add(1)
        .add(2)
        .get(delivery(2, 1))
        .breaks(Kind::Order);
    story()
        .add(1)
        .add(2)
        .get(delivery(1, 1))
        .get(delivery(2, 1))
        .holds();
}

#[test]
fn overtaken() {
    let mut waiting = story();
    waiting.ask(None).idle(0, 0).ask(None).idle(0, 0).add(1);
    let job = || Told::Jobs(vec![delivery(1, 1)]);
    let mut unfair = Story {
        entries: waiting.entries.clone(),
        ..waiting
    };
    unfair.told(2, job()).breaks(Kind::Overtaken);
    unfair.entries.pop();
    unfair.told(1, job()).holds();
}

#[test]
fn stuck() {
    story()
        .ask(None)
        .idle(0, 0)
        .add(1)
        .idle(1, 1)
        .breaks(Kind::Stuck);
    story()
        .ask(Some(100))
        .at(100)
        .idle(0, 0)
        .breaks(Kind::Stuck);
    story()
        .add(1)
        .ask(None)
        .told(1, Told::Null)
        .breaks(Kind::Stuck);
}

#[test]
fn wrong_answer() {
    story()
        .ask(Some(100))
        .idle(0, 0)
        .told(1, Told::Null)
        .breaks(Kind::WrongAnswer);
    let mut twice = story();
    twice.ask(Some(100)).at(100).told(1, Told::Null).holds();
    twice.told(1, Told::Null).breaks(Kind::WrongAnswer);
    let refused = What::Refused {
        wanted: wanted(1),
        error: Error::OutOfMemory,
    };
    story().tell(refused).breaks(Kind::WrongAnswer);
}

#[test]
fn taken_by_gone() {
    let mut gone = story();
    gone.ask(None)
        .idle(0, 0)
        .tell(What::Gone { call: 1 })
        .add(1);
    gone.told(1, Told::Jobs(vec![delivery(1, 1)]))
        .breaks(Kind::TakenByGone);
}

#[test]
fn paused() {
    let pause = |input, output| What::Paused {
        queue: 0,
        input,
        output,
    };
    story().tell(pause(true, false)).add(1).breaks(Kind::Paused);
    story()
        .add(1)
        .tell(pause(false, true))
        .get(delivery(1, 1))
        .breaks(Kind::Paused);
    // A RETRY that passes while paused in does not queue.
    let mut held = story();
    held.add(1).get(delivery(1, 1)).tell(pause(true, false));
    held.at(5_000).idle(1, 0).holds();
    held.get(delivery(1, 2)).breaks(Kind::Duplicate);
}

#[test]
fn miscounted() {
    story().add(1).ack(1, 0).breaks(Kind::Miscounted);
    story().ack(1, 1).breaks(Kind::Miscounted);
    story().add(1).idle(1, 0).breaks(Kind::Miscounted);
    story().idle(1, 0).breaks(Kind::Miscounted);
    story().add(1).get(delivery(1, 2)).breaks(Kind::Miscounted);
}

#[test]
fn a_stepped_wall_clock_changes_nothing() {
    let mut stepped = story();
    stepped.add(1).get(delivery(1, 1)).at(999).idle(1, 0);
    stepped.entries.last_mut().expect("there are some").wall += 3_600_000;
    stepped.get(delivery(1, 2)).breaks(Kind::Duplicate);
}
