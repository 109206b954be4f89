//! PAUSE.

use super::Node;
use crate::clock::Now;
use crate::collections::Full;
use crate::effects::Effects;
use crate::error::Error;
use crate::message::Message;
use crate::queue::Pause;
use crate::record::Record;

impl Node {
    /// What is paused of a queue; nothing, of a queue that does not exist.
    pub fn pause_state(&self, queue: &[u8]) -> Pause {
        self.queues
            .find(queue)
            .map_or(Pause::default(), |key| self.queues[key].pause)
    }

    /// PAUSE: replaces what is paused of a queue. Clients that wait on a queue
    /// that is no longer paused out are served by the next [`Node::serve`].
    pub fn pause(
        &mut self,
        now: Now,
        queue: &[u8],
        pause: Pause,
        fx: &mut Effects,
    ) -> Result<(), Error> {
        if self.pause_state(queue) == pause {
            return Ok(());
        }
        self.check_room_for_queue(queue)?;
        self.set_pause(now, queue, pause)?;
        fx.records.push(&Record::Paused {
            queue,
            pause: pause.to_bits(),
        });
        Ok(())
    }

    /// PAUSE with BCAST: the same on every node that can be told now.
    pub fn broadcast_pause(&self, queue: &[u8], fx: &mut Effects) {
        let pause = self.pause_state(queue).to_bits();
        self.tell_all(&Message::Pause { queue, pause }, fx);
    }

    pub(super) fn set_pause(&mut self, now: Now, queue: &[u8], pause: Pause) -> Result<(), Full> {
        let key = self.queues.find_or_create(queue, now)?;
        let entry = &mut self.queues[key];
        entry.pause = pause;
        entry.used_at = now.mono_ms;
        self.mark_ready(key);
        self.want(key);
        self.watch_if_unused(key, now);
        Ok(())
    }
}
