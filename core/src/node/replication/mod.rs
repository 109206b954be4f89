//! Jobs of which several nodes hold a copy.
//!
//! - [`spread`]: which nodes get copies; [`copy`]: one of them; [`confirm`]: who surely
//!   has one; [`producers`]: who waits for that; [`repair`]: what is done when some are
//!   lost.
//! - [`elsewhere`]: jobs of which this node keeps no copy; [`parting`]: how it gives
//!   one up.
//! - [`turns`]: who queues a job again, so that one node does and no two;
//!   [`asking`]: the question before.
//! - [`collect`]: acknowledgements, until every possible holder knows them.
//! - [`have`]: comparing copies, whatever was missed.
//! - [`vigil`]: what follows when nodes come, go, or this one was away.
//!
//! Three rules hold everywhere. States win in the order live, acknowledged, settled
//! and gone: a message about a job that is settled here is answered with that and
//! changes nothing. A node repeats what it needs until it is answered, and whatever
//! it is told twice does nothing the second time. Repetition is not written down:
//! records hold what a restart must know.

mod asking;
mod collect;
mod confirm;
mod copy;
mod elsewhere;
mod have;
mod invariants;
mod parting;
mod producers;
mod repair;
mod spread;
mod turns;
mod vigil;

pub(super) use copy::Refusal;
pub(super) use spread::Plan;
pub(super) use vigil::Vigil;

use super::Node;
use crate::clock::Now;
use crate::cluster::{Peer, PeerKey};
use crate::copies::{Copies, NO_COPIES};
use crate::effects::{Effects, Gate};
use crate::holders::{Holder, HolderSet, PairList, Pairs, TooManyHolders};
use crate::job::{Job, State};
use crate::job_id::JobId;
use crate::message::{append_message, Claim, Message};
use crate::mutants::Mutant;
use crate::record::{CopiesImage, Record};
use smallvec::SmallVec;

/// The first wait before something is repeated; later ones double.
const FIRST_WAIT_MS: u64 = 1_000;

/// How long to wait after something was done in vain `tries` times: twice as long each
/// time, up to a limit.
fn doubled(first_ms: u64, tries: u8, longest_ms: u64) -> u64 {
    first_ms.saturating_mul(1 << tries.min(16)).min(longest_ms)
}

/// A message that is being handled: from whom, and where answers to it go.
pub(super) struct Talk<'a, 'b> {
    pub now: Now,
    /// The speaker, for the links.
    pub with: PeerKey,
    /// The speaker among the holders.
    pub from: Holder,
    /// The answer to its frame; `None` where the message itself came in an answer.
    pub answers: Option<&'a mut Vec<u8>>,
    pub fx: &'b mut Effects,
}

impl Talk<'_, '_> {
    /// Answers. Redis holds the answer to a frame back until what it rests on is
    /// written; another message is gated for that.
    pub fn answer(&mut self, message: &Message<'_>) {
        match &mut self.answers {
            Some(answers) => append_message(message, answers),
            None => self.fx.send_to([self.with], message, Gate::Written),
        }
    }
}

/// What becomes of a job that another node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is a copy.
    Hold,
    /// It is this node's to deliver.
    Queue,
}

/// How a holder stands to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is this node.
    Own,
    /// It answers.
    Reachable(PeerKey),
    /// It does not, or is not known.
    Unreachable,
    /// It will never be there again: its node has other data, or was forgotten.
    Gone,
}

impl Node {
    fn standing(&self, holder: Holder, now: Now) -> Standing {
        if holder == self.own {
            return Standing::Own;
        }
        let pair = self.holders.pair(holder);
        let timeout = self.settings.node_timeout_ms;
        match self.cluster.peer(&pair.id) {
            Some(peer) if !self.holders.is_line_of(&peer.pair(), holder) => Standing::Gone,
            Some(peer) if peer.is_reachable(now, timeout) => Standing::Reachable(peer.key),
            Some(_) => Standing::Unreachable,
            None if pair.id == self.identity.id => Standing::Gone,
            // With whatever data: it may have lost some before it was forgotten.
            None if self.cluster.is_id_forgotten(&pair.id) => Standing::Gone,
            None => Standing::Unreachable,
        }
    }

    /// The node of a holder, if it answers.
    fn reach(&self, holder: Holder, now: Now) -> Option<PeerKey> {
        match self.standing(holder, now) {
            Standing::Reachable(peer) => Some(peer),
            _ => None,
        }
    }

    /// Whether a copy there counts: its node has the data still, and stays.
    fn counts(&self, holder: Holder, now: Now) -> bool {
        let pair = self.holders.pair(holder);
        match self.standing(holder, now) {
            Standing::Own => !self.leaving,
            Standing::Gone => false,
            _ => self.cluster.peer(&pair.id).is_none_or(|peer| !peer.leaving),
        }
    }

    /// The number of a peer among the holders.
    pub(in crate::node) fn holder_of(&mut self, key: PeerKey) -> Option<Holder> {
        let peer = self.cluster.by_key(key)?;
        self.holders.number(peer.pair()).ok()
    }

    /// The nodes of the table, among the holders.
    fn present(&mut self) -> SmallVec<[Holder; 8]> {
        let pairs = self.cluster.peers().map(Peer::pair);
        self.holders.numbers(pairs).collect()
    }

    /// The live job of a message. A speaker that takes this node for a holder is told
    /// that it is none.
    fn live_or_deny(&self, id: &JobId, talk: &mut Talk<'_, '_>) -> Option<u32> {
        let key = self.live(id);
        if key.is_none() {
            talk.answer(&Message::Unknown { id: *id });
        }
        key
    }

    /// A live job with what is known of its copies.
    pub(in crate::node) fn live(&self, id: &JobId) -> Option<u32> {
        let key = self.jobs.find(id)?;
        (!self.jobs[key].is_acked()).then_some(key)
    }

    /// The key of what is known of a job's copies, made if there was nothing.
    pub(in crate::node) fn copies_of(&mut self, key: u32) -> Result<u32, String> {
        let copies = self.jobs[key].copies;
        if copies != NO_COPIES {
            return Ok(copies);
        }
        let mut new = Copies::new(key, self.own);
        new.responsible = Some(self.own);
        new.asked = self.vigil.doubts;
        let copies = self.copies.insert(new).map_err(|full| full.to_string())?;
        self.jobs[key].copies = copies;
        Ok(copies)
    }

    /// What this node believes of a job.
    pub(in crate::node) fn claim(&self, key: u32) -> Claim {
        self.belief(&self.jobs[key])
    }

    /// Whom this node believes responsible for a job.
    pub fn belief(&self, job: &Job) -> Claim {
        let copies = self.copies.get(job.copies);
        Claim {
            turn: copies.map_or(0, |copies| copies.turn),
            responsible: copies
                .and_then(|copies| copies.responsible)
                .map(|holder| self.holders.pair(holder)),
            attempt: job.attempt,
        }
    }

    /// The possible holders of a job, as they are sent and written down.
    pub(in crate::node) fn holder_list(&self, key: u32) -> PairList {
        match self.copies.get(self.jobs[key].copies) {
            Some(copies) => self.holders.list(&copies.holders),
            None => self.holders.list(&HolderSet::of(self.own)),
        }
    }

    /// The same for a record of the whole job: empty where there are no copies.
    pub(super) fn recorded_holders(&self, key: u32) -> PairList {
        match self.copies.get(self.jobs[key].copies) {
            Some(copies) => self.holders.list(&copies.holders),
            None => PairList::default(),
        }
    }

    pub(super) fn copies_image<'a>(&self, key: u32, list: &'a PairList) -> Option<CopiesImage<'a>> {
        let copies = self.copies.get(self.jobs[key].copies)?;
        Some(CopiesImage {
            holders: list.pairs(),
            turn: copies.turn,
            responsible: copies.responsible.map(|holder| self.holders.pair(holder)),
        })
    }

    pub(in crate::node) fn record_holders(&self, key: u32, fx: &mut Effects) {
        let list = self.holder_list(key);
        fx.records.push(&Record::Holders {
            id: self.jobs[key].id,
            holders: list.pairs(),
        });
    }

    /// The other possible holders that can be told something now.
    fn others(&self, key: u32, now: Now) -> impl Iterator<Item = PeerKey> + '_ {
        let copies = self.copies.get(self.jobs[key].copies).into_iter();
        let holders = copies.flat_map(|copies| copies.holders.iter());
        holders.filter_map(move |holder| self.reach(holder, now))
    }

    fn tell_others(&self, key: u32, now: Now, message: &Message<'_>, gate: Gate, fx: &mut Effects) {
        fx.send_to(self.others(key, now), message, gate);
    }

    /// Adds holders that a peer knows; whether one of them was not known.
    pub(in crate::node) fn merge(&mut self, copies: u32, pairs: Pairs<'_>) -> Result<bool, String> {
        let set = self.read_set(pairs)?;
        let copies = &mut self.copies[copies];
        let grown = copies.learn(&set);
        copies.grown |= grown;
        Ok(grown)
    }

    fn read_set(&mut self, pairs: Pairs<'_>) -> Result<HolderSet, String> {
        let set = self.holders.set(pairs);
        set.map_err(|error: TooManyHolders| error.to_string())
    }

    /// One message about a job, of a frame or of an answer.
    pub(super) fn take_job_message(
        &mut self,
        message: Message<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        match message {
            Message::SetAck {
                id,
                attempt,
                dummy,
                holders,
            } => self.take_set_ack(&id, attempt, dummy, holders, talk),
            Message::GotAck { id, known, holders } => self.take_got_ack(&id, known, holders, talk),
            Message::DelJob { id } => {
                self.take_del_job(&id, talk);
                Ok(())
            }
            Message::KeepAck {
                id,
                ttl_left_ms,
                holders,
            } => self.take_keep_ack(&id, ttl_left_ms, holders, talk),
            Message::AckKept { id } => {
                self.take_ack_kept(&id, talk);
                Ok(())
            }
            Message::NeedJobs {
                queue,
                count,
                serial,
            } => self.take_need_jobs(queue, count, serial, talk),
            Message::Have { ids, mine } => self.take_have(ids, mine, talk),
            Message::Lacking { missing, not_mine } => {
                self.take_lacking(missing, not_mine, talk);
                Ok(())
            }
            _ => self.take_live_message(message, talk),
        }
    }

    /// One message about a job that lives, or else is settled here.
    fn take_live_message(
        &mut self,
        message: Message<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        if let Message::YourJob { serial, .. } = message {
            if self.came_before(serial, talk) {
                return Ok(());
            }
        }
        if self.is_mutant(Mutant::AckedJobTaken) {
            self.forget_ack_of(&message, talk.now);
        }
        // What follows is about live jobs.
        if let Some(id) = message.job() {
            if self.answer_settled(id, message.speaker_holds_it(), talk) {
                return Ok(());
            }
        }
        match message {
            Message::ReplJob(copy) => self.take_copy(&copy, talk),
            Message::GotJob { id } => self.take_got_job(&id, talk),
            Message::NotKept { id, full } => {
                self.take_not_kept(&id, full, talk);
                Ok(())
            }
            Message::Holders { id, holders } => self.take_holders(&id, holders, talk),
            Message::Enqueue {
                id,
                delay_ms,
                claim,
                holders,
            } => self.take_enqueue(&id, delay_ms, &claim, holders, talk),
            Message::WillQueue { id, claim, holders } => {
                self.take_will_queue(&id, &claim, holders, talk)
            }
            Message::WillDrop { id, holders } => self.take_will_drop(&id, holders, talk),
            Message::GoAhead { id, turn } => {
                self.take_go_ahead(&id, turn, talk);
                Ok(())
            }
            Message::Unknown { id } => {
                self.take_unknown(&id, talk);
                Ok(())
            }
            Message::Postpone { id, ms, claim } => self.take_postpone(&id, ms, &claim, talk),
            Message::YourJob { copy, .. } => self.take_your_job(&copy, talk),
            Message::GotYourJob { id, claim } => self.take_got_your_job(&id, &claim, talk),
            Message::NotTaken { id, full } => {
                self.take_not_taken(&id, full, talk);
                Ok(())
            }
            Message::NeedBody { id } => {
                self.take_need_body(&id, talk);
                Ok(())
            }
            Message::Queued { .. } => self.take_queued(&message, talk),
            Message::Working { .. } => self.take_working(&message, talk),
            _ => Err("that is no message about a job".into()),
        }
    }

    /// What [`Mutant::AckedJobTaken`] does with a job that is given.
    fn forget_ack_of(&mut self, message: &Message<'_>, now: Now) {
        let Message::YourJob { copy, .. } = message else {
            return;
        };
        let key = self.jobs.find(&copy.id);
        if let Some(key) = key.filter(|key| self.jobs[*key].is_acked()) {
            self.remove_job(key, now);
        }
    }

    /// A message about a job that is settled here is answered with that. `holds` says
    /// whether the speaker has the job.
    fn answer_settled(&mut self, id: &JobId, holds: bool, talk: &mut Talk<'_, '_>) -> bool {
        let here = self.jobs.find(id);
        let acked = here.is_some_and(|key| self.jobs[key].is_acked());
        let gone = here.is_none() && (self.settled.contains(id) || self.acks.find(id).is_some());
        if !acked && !gone {
            return false;
        }
        if let (true, Some(key)) = (acked, here) {
            self.name_to_collection(key, holds, talk);
            let list = self.holder_list(key);
            talk.answer(&Message::SetAck {
                id: *id,
                attempt: self.jobs[key].attempt,
                dummy: false,
                holders: list.pairs(),
            });
        } else {
            talk.answer(&Message::SetAck {
                id: *id,
                attempt: 0,
                dummy: true,
                holders: Pairs::NONE,
            });
        }
        true
    }

    /// Whether a job of this state takes part in requeueing.
    fn waits_for_requeue(state: State) -> bool {
        matches!(state, State::Active | State::Queued | State::Delayed)
    }
}
