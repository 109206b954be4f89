//! One server: adding, getting, acknowledging; one queue and many.

use crate::compare::{head, in_turns, measure, Aim, Figures};
use crate::load::{load, Run, Shape};
use crate::replies::{entry_ids, job_ids};
use crate::systems::{
    add_entries, add_jobs, batch_of, command, empty_jobs, empty_keys, same, with_module,
    without_module, BODY, DEEP, FIFTY,
};
use crate::Plan;
use disque_testing::Server;

const GET: [&str; 4] = ["GETJOB", "NOHANG", "FROM", "q"];
const READ: [&str; 9] = [
    "XREADGROUP",
    "GROUP",
    "g",
    "c",
    "COUNT",
    "1",
    "STREAMS",
    "s",
    ">",
];
const MANY: usize = 100;

/// w1: adding.
pub fn adding(plan: &Plan) {
    let (module, other) = (with_module(), without_module());
    head("w1 add, beside XADD");
    let one = Shape {
        connections: 1,
        window: 1,
    };
    for (what, shape, aim) in [
        ("1 x 1", one, Aim::None),
        ("50 x 1", FIFTY, Aim::AtLeast(0.95)),
        ("50 x 16", DEEP, Aim::AtLeast(0.8)),
    ] {
        let jobs = if shape.connections == 1 {
            plan.commands / 10
        } else {
            plan.commands
        };
        let add = same(jobs, &["ADDJOB", "q", BODY, "0"]);
        let xadd = same(jobs, &["XADD", "s", "*", "body", BODY]);
        in_turns(
            plan.rounds,
            what,
            &aim,
            || fresh(&module, empty_jobs, &add, shape),
            || fresh(&other, empty_keys, &xadd, shape),
        );
    }
    let batches = plan.commands / DEEP.window;
    let add = vec![batch_of(DEEP.window, &["ADDJOBS", "q", "0"]); batches];
    let xadd = same(batches * DEEP.window, &["XADD", "s", "*", "body", BODY]);
    in_turns(
        plan.rounds,
        "50 x ADDJOBS of 16, in jobs",
        &Aim::None,
        || {
            empty_jobs(&module);
            measure(&module, xadd.len(), || {
                load(module.port(), FIFTY, &add, false)
            })
        },
        || fresh(&other, empty_keys, &xadd, DEEP),
    );
}

fn fresh(server: &Server, empty: fn(&Server), commands: &[Vec<u8>], shape: Shape) -> Figures {
    empty(server);
    measure(server, commands.len(), || {
        load(server.port(), shape, commands, false)
    })
}

/// w2: getting and acknowledging.
pub fn taking(plan: &Plan) {
    let (module, other) = (with_module(), without_module());
    head("w2 get and acknowledge, beside XREADGROUP and XACK");
    let jobs = plan.commands;
    let refill = |count| {
        empty_jobs(&module);
        add_jobs(&module, "q", count);
    };
    let refill_stream = |count| {
        empty_keys(&other);
        add_entries(&other, "s", count);
    };
    in_turns(
        plan.rounds,
        "get, COUNT 1, 50 x 1",
        &Aim::AtLeast(1.6),
        || {
            refill(jobs);
            send(&module, jobs, &same(jobs, &GET))
        },
        || {
            refill_stream(jobs);
            send(&other, jobs, &same(jobs, &READ))
        },
    );
    in_turns(
        plan.rounds,
        "the same beside RPOP",
        &Aim::AtLeast(0.85),
        || {
            refill(jobs);
            send(&module, jobs, &same(jobs, &GET))
        },
        || {
            empty_keys(&other);
            let push = same(jobs, &["LPUSH", "l", BODY]);
            load(other.port(), DEEP, &push, false);
            send(&other, jobs, &same(jobs, &["RPOP", "l"]))
        },
    );
    let (get, read) = (many(&GET), many(&READ));
    in_turns(
        plan.rounds,
        "get, COUNT 100, in jobs",
        &Aim::AtLeast(4.0),
        || {
            refill(jobs);
            send(&module, jobs, &vec![get.clone(); jobs / MANY])
        },
        || {
            refill_stream(jobs);
            send(&other, jobs, &vec![read.clone(); jobs / MANY])
        },
    );
    for (what, batch, aim) in [
        ("acknowledge 1, 50 x 1", 1, Aim::AtLeast(0.9)),
        ("acknowledge 100, in jobs", MANY, Aim::AtLeast(0.5)),
    ] {
        in_turns(
            plan.rounds,
            what,
            &aim,
            || {
                refill(jobs);
                acknowledge(&module, jobs, batch)
            },
            || {
                refill_stream(jobs);
                let got = load(other.port(), FIFTY, &vec![read.clone(); jobs / MANY], true);
                let ids = got.replies.iter().flat_map(|reply| entry_ids(reply));
                send(&other, jobs, &with_ids(&["XACK", "s", "g"], ids, batch))
            },
        );
    }
}

/// Takes so many jobs and measures their acknowledgement.
pub fn acknowledge(server: &Server, jobs: usize, batch: usize) -> Figures {
    let got = load(server.port(), FIFTY, &vec![many(&GET); jobs / MANY], true);
    let ids = got.replies.iter().flat_map(|reply| job_ids(reply));
    send(server, jobs, &with_ids(&["ACKJOB"], ids, batch))
}

/// Takes so many jobs, one by one, and measures that.
pub fn take(server: &Server, jobs: usize) -> Figures {
    send(server, jobs, &same(jobs, &GET))
}

fn send(server: &Server, jobs: usize, commands: &[Vec<u8>]) -> Figures {
    measure(server, jobs, || load(server.port(), FIFTY, commands, false))
}

/// The command with COUNT 100.
fn many(words: &[&str]) -> Vec<u8> {
    let mut words: Vec<&str> = words.iter().copied().filter(|&w| w != "1").collect();
    match words.iter().position(|&word| word == "COUNT") {
        Some(place) => words.insert(place + 1, "100"),
        None => drop(words.splice(1..1, ["COUNT", "100"])),
    }
    command(&words)
}

fn with_ids(head: &[&str], ids: impl Iterator<Item = Vec<u8>>, batch: usize) -> Vec<Vec<u8>> {
    let ids: Vec<Vec<u8>> = ids.collect();
    let words = |ids: &[Vec<u8>]| {
        let head = head.iter().map(|word| word.as_bytes().to_vec());
        let words: Vec<Vec<u8>> = head.chain(ids.iter().cloned()).collect();
        disque_testing::resp::encode(&words)
    };
    ids.chunks(batch).map(words).collect()
}

/// w8: many queues against one, on both sides.
pub fn many_queues(plan: &Plan) {
    let (module, other) = (with_module(), without_module());
    let many = plan.queues;
    head(&format!(
        "w8 {many} queues (here: module) beside one queue (here: other)"
    ));
    for (system, server, empty, add, get) in [
        (
            "module",
            &module,
            empty_jobs as fn(&Server),
            &["ADDJOB", "Q", BODY, "0"][..],
            &["GETJOB", "NOHANG", "FROM", "Q"][..],
        ),
        (
            "lists",
            &other,
            empty_keys,
            &["LPUSH", "Q", BODY],
            &["RPOP", "Q"],
        ),
    ] {
        let aim = |wanted| match system {
            "module" => Aim::AtLeast(wanted),
            _ => Aim::None,
        };
        let fill = |queues| -> Run {
            empty(server);
            load(
                server.port(),
                FIFTY,
                &spread(plan.commands, add, queues),
                false,
            )
        };
        let adding = |queues| measure(server, plan.commands, || fill(queues));
        let getting = |queues| {
            fill(queues);
            send(server, plan.commands, &spread(plan.commands, get, queues))
        };
        let (add, get) = (format!("{system}: add"), format!("{system}: get"));
        in_turns(plan.rounds, &add, &aim(0.8), || adding(many), || adding(1));
        in_turns(
            plan.rounds,
            &get,
            &aim(0.8),
            || getting(many),
            || getting(1),
        );
    }
}

/// The command for each queue in turn, by a step that leaves no order.
fn spread(count: usize, words: &[&str], queues: usize) -> Vec<Vec<u8>> {
    const STEP: usize = 7_919;
    let named = |number: usize| {
        let name = format!("queue:{}", number * STEP % queues);
        let words = words
            .iter()
            .map(|&word| if word == "Q" { &name } else { word });
        command(&words.collect::<Vec<_>>())
    };
    (0..count).map(named).collect()
}
