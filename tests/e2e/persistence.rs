//! What a restart brings back.

use crate::common::*;

const ALL: [Persistence; 4] = [
    Persistence::Rdb,
    Persistence::Aof,
    Persistence::AofAlways,
    Persistence::Both,
];

fn with(persistence: Persistence) -> Server {
    Server::start(Options::new().persistence(persistence))
}

/// One job in each state that a lone node can hold, and what must be true of them
/// after a restart.
struct Mixture {
    queued: Vec<String>,
    delivered: String,
    delayed: String,
    nacked: String,
    requeued: String,
    acked: String,
    deleted: String,
}

impl Mixture {
    fn add(c: &mut Client) -> Mixture {
        let queued = (0..5)
            .map(|n| c.add("queued", &n.to_string(), ""))
            .collect();
        let delivered = c.add("delivered", "d", "RETRY 1000 TTL 5000");
        c.take("delivered");
        let delayed = c.add("delayed", "y", "DELAY 1000 RETRY 77");
        let nacked = c.add("nacked", "n", "");
        c.take("nacked");
        c.run(&format!("NACK {nacked}")).expect_number(1);
        let requeued = c.add("requeued", "r", "");
        c.take("requeued");
        c.run(&format!("ENQUEUE {requeued}")).expect_number(1);
        let acked = c.add("acked", "a", "RETRY 1");
        c.take("acked");
        c.run(&format!("ACKJOB {acked}")).expect_number(1);
        let deleted = c.add("deleted", "x", "");
        c.run(&format!("DELJOB {deleted}")).expect_number(1);
        Mixture {
            queued,
            delivered,
            delayed,
            nacked,
            requeued,
            acked,
            deleted,
        }
    }

    #[track_caller]
    fn check(&self, c: &mut Client) {
        assert_eq!(c.all_ids().len(), 9);
        for gone in [&self.acked, &self.deleted] {
            assert_eq!(c.show(gone), None);
        }
        let delivered = c.show(&self.delivered).unwrap();
        assert_eq!(delivered.state, "active");
        assert_eq!(
            (delivered.retry, delivered.body.as_deref()),
            (1000, Some(&b"d"[..]))
        );
        let due = delivered.next_requeue_within.unwrap();
        assert!((900_000..=1_000_500).contains(&due), "{due} ms");
        let delayed = c.show(&self.delayed).unwrap();
        assert_eq!(delayed.state, "active");
        assert_eq!((delayed.delay, delayed.retry), (1000, 77));
        let due = delayed.next_requeue_within.unwrap();
        assert!((900_000..=1_000_500).contains(&due), "{due} ms");
        let peeked = deliveries(&c.run("QPEEK queued 10"));
        let ids: Vec<&String> = peeked.iter().map(|j| &j.id).collect();
        assert_eq!(ids, self.queued.iter().collect::<Vec<_>>());
        let nacked = c.show(&self.nacked).unwrap();
        assert_eq!((nacked.state.as_str(), nacked.nacks), ("queued", 1));
        let requeued = c.show(&self.requeued).unwrap();
        assert_eq!(requeued.state, "queued");
        for queue in ["delivered", "delayed", "acked", "deleted"] {
            assert_eq!(c.len(queue), 0, "{queue}");
        }
    }
}

#[test]
fn jobs_of_every_state_survive_a_clean_restart() {
    for persistence in ALL {
        let mut server = with(persistence);
        let mut c = server.client();
        let jobs = Mixture::add(&mut c);
        jobs.check(&mut c);
        for _ in 0..2 {
            server.restart();
            jobs.check(&mut server.client());
        }
    }
}

#[test]
fn jobs_survive_a_restart_from_a_rewritten_log() {
    for persistence in [Persistence::Aof, Persistence::AofAlways, Persistence::Both] {
        let mut server = with(persistence);
        let mut c = server.client();
        let jobs = Mixture::add(&mut c);
        server.rewrite_log();
        // And what comes after the rewrite.
        let later = c.add("later", "x", "");
        server.restart();
        let mut c = server.client();
        assert_eq!(c.take("later").id, later);
        c.run(&format!("ACKJOB {later}")).expect_number(1);
        jobs.check(&mut c);
        server.restart();
        jobs.check(&mut server.client());
    }
}

#[test]
fn debug_reload_and_loadaof_change_nothing() {
    let server = with(Persistence::Both);
    let mut c = server.client();
    let jobs = Mixture::add(&mut c);
    c.run("DEBUG RELOAD").expect_ok();
    jobs.check(&mut c);
    c.run("DEBUG LOADAOF").expect_ok();
    jobs.check(&mut c);
    // Loading replaced the state and did not add to it.
    assert_eq!(c.get_now("COUNT 50 FROM queued nacked requeued").len(), 7);
}

#[test]
fn nothing_that_was_answered_is_lost_by_a_kill_when_each_write_is_synced() {
    let mut server = with(Persistence::AofAlways);
    let mut c = server.client();
    let jobs = Mixture::add(&mut c);
    server.kill9();
    server.start_again();
    jobs.check(&mut server.client());
}

#[test]
fn a_kill_with_sync_every_second_loses_nothing_that_redis_wrote() {
    let mut server = with(Persistence::Aof);
    let mut c = server.client();
    let ids: Vec<String> = (0..100).map(|n| c.add("q", &n.to_string(), "")).collect();
    c.run(&format!("ACKJOB {}", ids[0])).expect_number(1);
    server.kill9();
    server.start_again();
    let mut c = server.client();
    let found = c.get_now("COUNT 200 FROM q");
    let found: Vec<&String> = found.iter().map(|j| &j.id).collect();
    assert_eq!(found, ids[1..].iter().collect::<Vec<_>>());
}

#[test]
fn an_acknowledged_job_never_comes_back_from_disk() {
    for persistence in ALL {
        let mut server = with(persistence);
        let mut c = server.client();
        let acked = c.add("q", "x", "RETRY 0.3");
        c.take("q");
        let fast = c.add("q", "x", "RETRY 0.3");
        c.run(&format!("ACKJOB {acked}")).expect_number(1);
        c.run(&format!("FASTACK {fast}")).expect_number(1);
        server.restart();
        let mut c = server.client();
        c.run("GETJOB TIMEOUT 1000 FROM q").expect_null_array();
        expect_no_jobs(&mut c);
    }
}

#[test]
fn what_is_left_of_the_retry_runs_on_after_a_restart() {
    for persistence in ALL {
        let mut server = with(persistence);
        let mut c = server.client();
        let id = c.add("q", "x", "RETRY 2");
        c.take("q");
        let start = Instant::now();
        server.restart();
        let mut c = server.client();
        assert_eq!(c.len("q"), 0, "{persistence:?}");
        let job = c.wait_job("q", secs(8)).expect("never again");
        assert_eq!(job.id, id);
        assert_eq!(job.additional_deliveries, Some(1));
        expect_between(start.elapsed(), secs(2), LATE);
    }
}

#[test]
fn the_node_keeps_its_id_with_and_without_jobs() {
    for persistence in ALL {
        let mut server = with(persistence);
        let mut c = server.client();
        let id = c.my_id();
        c.add("q", "x", "");
        server.restart();
        let mut c = server.client();
        assert_eq!(c.my_id(), id, "{persistence:?}");
        c.take("q");
        server.restart();
        assert_eq!(server.client().my_id(), id, "{persistence:?}");
    }
}

#[test]
fn the_node_keeps_its_id_but_no_jobs_without_persistence() {
    let mut server = with(Persistence::None);
    let mut c = server.client();
    let id = c.my_id();
    c.add("q", "x", "");
    server.restart();
    let mut c = server.client();
    assert_eq!(c.my_id(), id);
    expect_no_jobs(&mut c);
}

#[test]
fn names_bodies_and_options_come_back_byte_for_byte() {
    let all: Vec<u8> = (0..=255).collect();
    let big: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    for persistence in ALL {
        let mut server = with(persistence);
        let mut c = server.client();
        let mut added = Vec::new();
        for (queue, body) in [(&all[..], &all[..]), (b"\0", b""), (b"big", &big)] {
            let id = c.call(&[b"ADDJOB", queue, body, b"0"]).expect_job_id();
            added.push((id, queue, body));
        }
        server.restart();
        let mut c = server.client();
        for (id, queue, body) in added {
            let reply = c.call(&[b"GETJOB", &b"NOHANG"[..], b"FROM", queue]);
            let job = reply.expect_array()[0].items();
            assert_eq!((job[0].bulk(), job[1].text()), (queue, id.as_str()));
            assert!(job[2].bulk() == body, "another body of {id}");
        }
    }
}

#[test]
fn redis_flushes_do_not_reach_jobs_on_disk_either() {
    for persistence in ALL {
        let mut server = with(persistence);
        let mut c = server.client();
        c.run("SET k v").expect_ok();
        let id = c.add("q", "x", "");
        c.run("FLUSHALL").expect_ok();
        server.restart();
        assert_eq!(server.client().take("q").id, id, "{persistence:?}");
    }
}

#[test]
fn flushed_jobs_do_not_return() {
    for persistence in ALL {
        let mut server = with(persistence);
        let mut c = server.client();
        for _ in 0..100 {
            c.add("q", "x", "RETRY 0.2");
        }
        c.get_now("COUNT 50 FROM q");
        c.run("DISQUE FLUSHALL").expect_ok();
        server.restart();
        let mut c = server.client();
        c.run("GETJOB TIMEOUT 600 FROM q").expect_null_array();
        expect_no_jobs(&mut c);
    }
}

#[test]
fn new_ids_and_creation_times_go_on_after_a_restart() {
    let mut server = with(Persistence::AofAlways);
    let mut c = server.client();
    let old = c.add("q", "1", "");
    let before = c.show(&old).unwrap().ctime;
    server.restart();
    let mut c = server.client();
    let new = c.add("q", "2", "");
    assert_ne!(old, new);
    assert!(c.show(&new).unwrap().ctime > before);
    assert_eq!(c.take("q").id, old);
}

#[test]
fn redeliveries_write_nothing() {
    let server = with(Persistence::AofAlways);
    let mut c = server.client();
    for _ in 0..20 {
        c.add("q", "x", "RETRY 0.2");
    }
    c.get_now("COUNT 20 FROM q");
    let size = |server: &Server| server.info_number("persistence", "aof_current_size");
    let before = size(&server);
    eventually(secs(5), "all are queued again", || c.len("q") == 20);
    assert_eq!(size(&server), before);
}

#[test]
fn a_rewritten_log_follows_the_live_jobs() {
    let server = with(Persistence::Aof);
    let mut c = server.client();
    let body = "x".repeat(1000);
    let command = format!("ADDJOB q {body} 0");
    for _ in 0..10 {
        let ids: Vec<String> = c
            .pipeline(&vec![command.as_str(); 100])
            .iter()
            .map(|r| r.expect_job_id())
            .collect();
        c.run(&format!("ACKJOB {}", ids.join(" ")))
            .expect_number(100);
    }
    c.add("q", "stays", "");
    server.rewrite_log();
    let size = server.info_number("persistence", "aof_current_size");
    assert!(size < 20_000, "{size} bytes for one job");
}

#[test]
fn a_log_that_ends_in_the_middle_of_a_record_is_read_up_to_there() {
    let mut server = with(Persistence::AofAlways);
    let mut c = server.client();
    let ids: Vec<String> = (0..20).map(|n| c.add("q", &n.to_string(), "")).collect();
    server.kill9();
    let log = append_log(&server);
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 5]).unwrap();
    server.start_again();
    let mut c = server.client();
    let found = c.get_now("COUNT 50 FROM q");
    let found: Vec<&String> = found.iter().map(|j| &j.id).collect();
    assert!(found.len() >= 18, "{} of 20", found.len());
    assert_eq!(found, ids[..found.len()].iter().collect::<Vec<_>>());
    c.add("q", "x", "");
}

#[test]
fn redeliveries_are_counted_over_a_restart() {
    let mut server = with(Persistence::Aof);
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 1");
    for _ in 0..3 {
        c.wait_job("q", secs(8)).expect("the job comes again");
    }
    let before = c.show(&id).unwrap().additional_deliveries;
    assert_eq!(before, 2);
    server.restart();
    let after = server.client().show(&id).unwrap().additional_deliveries;
    assert!(after >= before, "{before} became {after}");
}

/// Where the module's part of a snapshot begins: the mark of auxiliary data, and the
/// name and version of the type, six bits for each letter and ten for the number.
fn start_of_job_data(rdb: &[u8]) -> usize {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |c: &u8| LETTERS.iter().position(|l| l == c).unwrap() as u64;
    let name = b"disque-jq".iter().fold(0, |id, c| id << 6 | letter(c));
    let mark = [&[0xf7, 0x81][..], &(name << 10 | 1).to_be_bytes()].concat();
    let found = rdb.windows(mark.len()).position(|part| part == mark);
    found.expect("no job data in the snapshot")
}

/// Redis reads on after an error of a module; the server would run without jobs.
#[test]
fn a_snapshot_that_ends_within_the_job_data_stops_the_start() {
    for persistence in [Persistence::Rdb, Persistence::Both] {
        let mut server = with(persistence);
        let mut c = server.client();
        Mixture::add(&mut c);
        if persistence == Persistence::Both {
            server.rewrite_log();
        }
        server.stop_clean();
        let file = match persistence {
            Persistence::Rdb => server.directory().join("dump.rdb"),
            _ => server.rewritten_file().expect("no base file"),
        };
        let good = std::fs::read(&file).unwrap();
        let start = start_of_job_data(&good);
        for behind in [10, 11, 12, 13, 20, 100, good.len() - start - 12] {
            std::fs::write(&file, &good[..start + behind]).unwrap();
            let Err(log) = server.try_start_again() else {
                panic!("{persistence:?}: it runs on data that end {behind} bytes behind the start");
            };
            assert!(log.contains("exit status: 1"), "{behind}: {log}");
            assert!(
                log.contains("hort read") || log.contains("Unexpected end of file"),
                "{persistence:?}, {behind}: {log}"
            );
        }
        std::fs::write(&file, &good).unwrap();
        server.start_again();
        assert_eq!(server.client().all_ids().len(), 9);
    }
}

/// The line of data that the node holds.
fn epoch(c: &mut Client) -> String {
    let lines = c.run("DISQUE NODES").expect_text();
    let own = lines.lines().find(|line| line.contains("myself")).unwrap();
    own.split(' ').nth(3).unwrap().into()
}

#[test]
fn the_data_epoch_stays_as_long_as_nothing_is_missing() {
    for persistence in [
        Persistence::Rdb,
        Persistence::Aof,
        Persistence::AofAlways,
        Persistence::Both,
    ] {
        let mut server = with(persistence);
        let mut c = server.client();
        Mixture::add(&mut c);
        let before = epoch(&mut c);
        for _ in 0..2 {
            server.restart();
            assert_eq!(epoch(&mut server.client()), before, "{persistence:?}");
        }
        if persistence == Persistence::Rdb {
            continue;
        }
        server.client().add("q", "x", "");
        server.rewrite_log();
        server.client().add("q", "x", "");
        server.kill9();
        server.start_again();
        assert_eq!(epoch(&mut server.client()), before, "{persistence:?}");
    }
}

#[test]
fn data_that_are_older_than_what_was_written_have_a_new_epoch() {
    let mut server = with(Persistence::Rdb);
    let mut c = server.client();
    let id = c.add("q", "x", "");
    c.run("SAVE").expect_ok();
    let file = server.directory().join("dump.rdb");
    let older = std::fs::read(&file).unwrap();
    let (node, first) = (c.my_id(), epoch(&mut c));
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    server.stop_clean();
    std::fs::write(&file, &older).unwrap();
    server.start_again();
    let mut c = server.client();
    assert_eq!(c.my_id(), node);
    assert_eq!(c.state(&id), "queued");
    let second = epoch(&mut c);
    assert_ne!(first, second);
    // The new one is written down, and the old data are older than that, too.
    server.restart();
    assert_eq!(epoch(&mut server.client()), second);
    server.stop_clean();
    std::fs::write(&file, &older).unwrap();
    server.start_again();
    let third = epoch(&mut server.client());
    assert!(third != first && third != second);
    server.stop_clean();
    std::fs::remove_file(&file).unwrap();
    server.start_again();
    let mut c = server.client();
    assert_eq!(c.my_id(), node);
    assert!(epoch(&mut c) != third);
}

#[test]
fn jobs_that_are_saved_nowhere_end_with_their_epoch() {
    let mut server = with(Persistence::None);
    let mut before = epoch(&mut server.client());
    server.restart();
    assert_eq!(epoch(&mut server.client()), before, "there was nothing");
    for clean in [true, false] {
        let mut c = server.client();
        c.add("q", "x", "");
        let node = c.my_id();
        if clean {
            server.stop_clean();
        } else {
            server.kill9();
        }
        server.start_again();
        let mut c = server.client();
        assert_eq!(c.my_id(), node);
        let now = epoch(&mut c);
        assert_ne!(now, before, "clean: {clean}");
        before = now;
    }
}

#[test]
fn damaged_snapshots_never_crash_the_server() {
    let mut server = with(Persistence::Rdb);
    let mut c = server.client();
    Mixture::add(&mut c);
    server.stop_clean();
    let file = server.directory().join("dump.rdb");
    let good = std::fs::read(&file).unwrap();
    // Redis' own checksum would find these before the module sees them.
    server.configure("rdbchecksum", "no");
    let steps = good.len() / 40 + 1;
    for cut in (10..good.len()).step_by(steps) {
        let mut flipped = good.clone();
        flipped[cut] ^= 0x41;
        for damaged in [&good[..cut], &flipped] {
            std::fs::write(&file, damaged).unwrap();
            match server.try_start_again() {
                Ok(()) => {
                    server.client().run("PING").expect_status("PONG");
                    server.kill9();
                }
                Err(log) => {
                    for sign in ["BUG REPORT", "panicked at", "SIGSEGV", "ASSERTION"] {
                        assert!(!log.contains(sign), "damage at byte {cut}:\n{log}");
                    }
                }
            }
        }
    }
    std::fs::write(&file, &good).unwrap();
    server.start_again();
    assert_eq!(server.client().all_ids().len(), 9);
}

#[test]
fn the_internal_record_is_refused_from_clients() {
    let server = with(Persistence::Aof);
    let mut c = server.client();
    let reply = c.run("COMMAND LIST FILTERBY MODULE disque");
    let names: Vec<String> = reply
        .expect_array()
        .iter()
        .map(|v| v.text().to_string())
        .collect();
    let internal: Vec<&String> = names.iter().filter(|n| n.contains('.')).collect();
    assert!(!internal.is_empty(), "{names:?}");
    for name in internal {
        for arguments in ["", "x", "x y z"] {
            c.run(&format!("{name} {arguments}")).expect_any_error();
        }
    }
    c.run("PING").expect_status("PONG");
}
