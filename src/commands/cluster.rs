//! The subcommands of DISQUE about other nodes, and the command with which nodes
//! talk to each other.

use super::words::{decimal, Words};
use super::{parts_of, words_of};
use crate::ffi::Call;
use crate::host::{command, command_always, query_always, Host};
use disque_core::clock::Now;
use disque_core::cluster::{is_host, Contact, LinkState, Peer};
use disque_core::error::Error;
use disque_core::node::hex;

/// The syntax of MEET.
pub const MEET_USAGE: &str = "DISQUE MEET host port";

/// `DISQUE MEET host port`
///
/// The client waits until the node at the address has said who it is. Where it
/// cannot wait the answer is OK at once and the outcome goes to the log.
pub fn meet(call: &mut Call<'_>) {
    command(call, |host, _, call| {
        let contact = parse_contact(&words_of(call)[1..])?;
        host.start_meeting(contact, call)
    });
}

/// `DISQUE FORGET id`
pub fn forget(call: &mut Call<'_>) {
    command(call, |host, now, call| {
        let words = words_of(call);
        let id = words.get(1).ok_or(Error::Internal)?;
        host.node.forget_node(now, id, &mut host.fx)?;
        call.reply().simple("OK");
        Ok(())
    });
}

/// `DISQUE RESET`
pub fn reset(call: &mut Call<'_>) {
    command_always(call, |host, now, call| {
        host.node.reset(now, &mut host.fx);
        host.introduce();
        call.reply().simple("OK");
        Ok(())
    });
}

/// `DISQUE HELLO`
pub fn hello(call: &mut Call<'_>) {
    query_always(call, |host, now, call| {
        let id = host.node.identity().hex();
        let timeout = host.node.settings().node_timeout_ms;
        let own = own_contact(host, call);
        let own_priority = if host.node.is_leaving() { 100 } else { 1 };
        let cluster = host.node.cluster();
        let reply = call.reply();
        reply.array(2 + cluster.size());
        reply.integer(1);
        reply.bulk(&id);
        let mut line = |id: &str, contact: &Contact, priority: u8| {
            reply.array(4);
            reply.bulk(id);
            reply.bulk(&contact.host);
            reply.bulk(contact.port.to_string());
            reply.bulk(priority.to_string());
        };
        line(&id, &own, own_priority);
        for peer in cluster.peers() {
            line(&hex(&peer.id), &peer.contact, peer.priority(now, timeout));
        }
        Ok(())
    });
}

/// `DISQUE NODES`
pub fn nodes(call: &mut Call<'_>) {
    query_always(call, |host, now, call| {
        let own = own_contact(host, call);
        let mut text = own_line(host, &own);
        for peer in host.node.cluster().peers() {
            text.push_str(&peer_line(host, now, peer));
        }
        call.reply().bulk(text);
        Ok(())
    });
}

fn own_line(host: &Host, own: &Contact) -> String {
    let identity = host.node.identity();
    let mut flags = String::from("myself");
    if host.node.is_leaving() {
        flags.push_str(",leaving");
    }
    if host.node.was_forgotten() {
        flags.push_str(",forgotten");
    }
    if host.node.successor().is_some() {
        flags.push_str(",superseded");
    }
    if host.node.double().is_some() {
        flags.push_str(",doubled");
    }
    let (id, epoch) = (identity.hex(), identity.epoch);
    format!("{id} {own} {flags} {epoch} 0 connected 0\n")
}

/// A line: id, address, flags, epoch, ms since last heard (-1 for never), link,
/// bytes that wait for it, and why it takes nothing, if it says so.
fn peer_line(host: &Host, now: Now, peer: &Peer) -> String {
    let timeout = host.node.settings().node_timeout_ms;
    let mut flags = Vec::new();
    if peer.leaving {
        flags.push("leaving");
    }
    match peer.priority(now, timeout) {
        100 if !peer.leaving => flags.push("failed"),
        5 | 10 => flags.push("suspected"),
        _ => {}
    }
    let flags = if flags.is_empty() {
        "-".into()
    } else {
        flags.join(",")
    };
    let silent = peer.silent_ms(now).map_or("-1".into(), |ms| ms.to_string());
    let (link, why) = match &peer.link {
        LinkState::Up(_) => ("connected", String::new()),
        LinkState::Closed => ("disconnected", String::new()),
        LinkState::Refusing(refusal) => ("disconnected", format!(" ({})", refusal.0)),
    };
    let queued = host.queued_bytes(peer.key);
    let (id, at) = (hex(&peer.id), &peer.contact);
    format!(
        "{id} {at} {flags} {} {silent} {link} {queued}{why}\n",
        peer.epoch
    )
}

/// Where clients reach this node.
fn own_contact(host: &Host, call: &Call<'_>) -> Contact {
    let settings = host.node.settings();
    let announced = &settings.announce_host;
    Contact {
        host: if announced.is_empty() {
            String::from_utf8_lossy(&own_address(call)).into_owned()
        } else {
            announced.clone()
        },
        port: settings.announce_port,
    }
}

/// The address that others may try: the first one that this server is bound to.
fn own_address(call: &Call<'_>) -> Vec<u8> {
    let bind = call.ctx().config(c"bind").unwrap_or_default();
    bind.split(|&c| c == b' ')
        .map(|address| address.strip_prefix(b"-").unwrap_or(address))
        .find(|address| !matches!(*address, b"" | b"*" | b"::*" | b"0.0.0.0" | b"::"))
        .unwrap_or(b"127.0.0.1")
        .to_vec()
}

fn parse_contact(words: &[&[u8]]) -> Result<Contact, Error> {
    let mut words = Words::new(words, MEET_USAGE);
    let (host, port) = (words.word()?, words.word()?);
    if !is_host(host) {
        return Err(Error::CannotMeet("that is no host name or address".into()));
    }
    let port = decimal(port)
        .and_then(|port| u16::try_from(port).ok())
        .filter(|&port| port > 0)
        .ok_or(Error::CannotMeet("the port must be from 1 to 65535".into()))?;
    Ok(Contact {
        host: String::from_utf8_lossy(host).into_owned(),
        port,
    })
}

/// `DISQUE.BUS header [body ...]`: a frame from another node.
pub fn bus(call: &mut Call<'_>) {
    if call.ctx().flags().multi() {
        call.reply().error(&Error::BusInTransaction.to_string());
        return;
    }
    command_always(call, |host, now, call| {
        let frame = call.args().from(1);
        host.bodies.note(frame.from(1));
        let from = host.senders.host(call.ctx());
        match host
            .node
            .handle_frame(now, parts_of(frame)?, &from, &mut host.fx)
        {
            Ok(answer) => {
                host.senders.taken(&from);
                call.reply().bulk(answer);
            }
            Err(error) => {
                let text = error.to_string();
                host.senders.log_refused(call.ctx(), &from, &text);
                call.reply().error(&text);
            }
        }
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(host: &str, port: &str) -> Result<String, String> {
        parse_contact(&[host.as_bytes(), port.as_bytes()])
            .map(|contact| contact.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_addresses() {
        assert_eq!(
            parse("node-1.example", "7711"),
            Ok("node-1.example:7711".into())
        );
        assert_eq!(parse("::1", "65535"), Ok("[::1]:65535".into()));
        for (host, port) in [
            ("", "1"),
            ("a b", "1"),
            ("a", "0"),
            ("a", "65536"),
            ("a", "x"),
        ] {
            assert!(parse(host, port).is_err(), "{host} {port}");
        }
    }
}
