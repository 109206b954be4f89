//! Jobs outlive their nodes: copies are finished by others, made up for, and come up
//! again after crashes.

use crate::common::*;
use std::collections::{BTreeMap, BTreeSet};

/// Takes and acknowledges what there is at all nodes until nothing came for `quiet`;
/// how often each job was delivered.
fn drain(cluster: &Cluster, queue: &str, quiet: Duration) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    let mut clients: Vec<Client> = (0..cluster.len()).map(|at| cluster[at].client()).collect();
    let mut last = Instant::now();
    while last.elapsed() < quiet {
        for client in &mut clients {
            let reply = client.run(&format!("GETJOB NOHANG COUNT 100 FROM {queue}"));
            for job in deliveries(&reply) {
                client.run(&format!("ACKJOB {}", job.id));
                *seen.entry(job.id).or_insert(0) += 1;
                last = Instant::now();
            }
        }
        std::thread::sleep(ms(10));
    }
    seen
}

#[test]
fn what_was_answered_survives_the_death_of_all_nodes_at_once() {
    const JOBS: usize = 300;
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::AofAlways));
    let mut ids = Vec::new();
    for n in 0..JOBS {
        let mut c = cluster[n % 3].client();
        let body = n.to_string();
        ids.push(add_with(
            &mut c,
            "q",
            &body,
            "0 REPLICATE 3 RETRY 1 TTL 3600",
        ));
    }
    // A third of them is done, and known to be everywhere.
    let mut acked = BTreeSet::new();
    for id in ids.iter().take(JOBS / 3) {
        let mut c = cluster[0].client();
        c.run(&format!("ACKJOB {id}")).expect_number(1);
        acked.insert(id.clone());
    }
    for at in 0..3 {
        wait_figure(&cluster[at], "acked_jobs", 0, secs(20));
    }
    let mut c = cluster[0].client();
    c.run("ADDJOB q x 0 REPLICATE 4").expect_error("NOREPL");
    // Some are with workers.
    for at in 0..3 {
        let reply = cluster[at].client().run("GETJOB COUNT 20 FROM q");
        assert_eq!(deliveries(&reply).len(), 20);
    }
    for at in 0..3 {
        cluster[at].kill9();
    }
    for at in 0..3 {
        cluster[at].start_again();
    }
    cluster.wait_connected();
    let seen = drain(&cluster, "q", secs(5));
    for id in &ids {
        let times = seen.get(id).copied().unwrap_or(0);
        match acked.contains(id) {
            true => assert_eq!(times, 0, "acknowledged before: {id}"),
            false => assert_eq!(times, 1, "{id}"),
        }
    }
    wait_empty(&cluster, secs(20));
}

#[test]
fn acknowledgements_on_their_way_survive_the_death_of_all_nodes() {
    const JOBS: usize = 200;
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::AofAlways));
    let mut ids = Vec::new();
    for n in 0..JOBS {
        let mut c = cluster[n % 3].client();
        ids.push(add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 1"));
    }
    // Acknowledged anywhere, and killed at once.
    let mut clients = [
        cluster[0].client(),
        cluster[1].client(),
        cluster[2].client(),
    ];
    for (n, id) in ids.iter().enumerate() {
        clients[n * 7 % 3]
            .run(&format!("ACKJOB {id}"))
            .expect_number(1);
        if n == JOBS / 2 {
            (0..3).for_each(|at| cluster[at].kill9());
            (0..3).for_each(|at| cluster[at].start_again());
            clients = [
                cluster[0].client(),
                cluster[1].client(),
                cluster[2].client(),
            ];
        }
    }
    cluster.wait_connected();
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(5));
    wait_empty(&cluster, secs(20));
}

#[test]
fn a_node_that_restarts_keeps_its_jobs_and_they_are_delivered_once() {
    for clean in [true, false] {
        let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::AofAlways));
        let mut ids = BTreeSet::new();
        for at in 0..3 {
            for _ in 0..20 {
                let mut c = cluster[at].client();
                ids.insert(add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 60"));
            }
        }
        for at in 0..3 {
            match clean {
                true => cluster[at].stop_clean(),
                false => cluster[at].kill9(),
            }
            cluster[at].start_again();
            cluster.wait_connected();
        }
        let seen = drain(&cluster, "q", secs(3));
        assert_eq!(seen.keys().cloned().collect::<BTreeSet<_>>(), ids);
        assert!(seen.values().all(|times| *times == 1), "{seen:?}");
        wait_empty(&cluster, secs(20));
    }
}

#[test]
fn copies_that_are_lost_for_good_are_made_up_for() {
    let mut cluster = Cluster::new(4);
    let mut c = cluster[0].client();
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(add_with(&mut c, "q", "x", "0 REPLICATE 3"));
    }
    let lost = ids
        .iter()
        .filter(|id| show(&cluster[3], id).is_some())
        .count();
    assert!(lost > 0);
    let dead = cluster.id(3);
    drop(cluster.remove(3));
    wait_unreachable(&cluster, &[0, 1, 2], &dead);
    assert_eq!(figure(&cluster[0], "under_replicated"), 0);
    c.run(&format!("DISQUE FORGET {dead}")).expect_ok();
    let forgotten = Instant::now();
    let mut most = 0;
    eventually(secs(10), "all copies are there again", || {
        let now = figure(&cluster[0], "under_replicated");
        most = most.max(now);
        now == 0 && most > 0
    });
    let took = forgotten.elapsed();
    assert_eq!(most as usize, lost);
    for at in 1..3 {
        wait_figure(&cluster[at], "under_replicated", 0, secs(10));
    }
    for id in &ids {
        assert_eq!(holders(&cluster, id), [0, 1, 2]);
        assert_eq!(state(&cluster[0], id), "queued");
    }
    assert!(took < secs(10), "after {took:?}");
}

/// A node of three loses data: all of it, or what came after its last snapshot.
fn loses_data(persistence: Persistence) {
    let mut cluster = Cluster::start(3, Options::new().persistence(persistence));
    let mut c = cluster[0].client();
    let mut ids = Vec::new();
    for n in 0..50 {
        if n == 20 && persistence == Persistence::Rdb {
            cluster[2].client().run("SAVE").expect_ok();
        }
        ids.push(add_with(&mut c, "q", "x", "0 REPLICATE 3"));
    }
    let id = cluster.id(2);
    cluster[2].kill9();
    cluster[2].start_again();
    cluster.wait_connected();
    assert_eq!(cluster.id(2), id);
    eventually(secs(10), "it has all again", || {
        figure(&cluster[2], "registered_jobs") == 50
    });
    for at in 0..3 {
        wait_figure(&cluster[at], "under_replicated", 0, secs(10));
    }
    for id in ids {
        assert_eq!(states(&cluster, &id), ["queued", "active", "active"]);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    wait_empty(&cluster, secs(10));
}

#[test]
fn a_node_that_comes_back_without_its_data_gets_its_copies_again() {
    loses_data(Persistence::None);
}

#[test]
fn a_node_that_comes_back_with_an_old_snapshot_gets_what_it_lacks() {
    loses_data(Persistence::Rdb);
}

/// Takes the end of a stopped server's append only file away, as a power cut may.
fn lose_the_end(server: &Server) {
    let directory = server.directory().join("appendonlydir");
    let files = std::fs::read_dir(directory).expect("an append only file");
    let paths = files.map(|file| file.unwrap().path());
    let is_last = |path: &std::path::PathBuf| path.to_string_lossy().contains(".incr.");
    let path = paths.filter(is_last).max().expect("a file with changes");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
}

#[test]
fn a_node_that_lost_the_end_of_its_append_only_file_gets_what_it_lacks() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::Aof));
    let mut c = cluster[0].client();
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(add_with(&mut c, "q", "x", "0 REPLICATE 3"));
    }
    cluster[2].kill9();
    lose_the_end(&cluster[2]);
    cluster[2].start_again();
    let left = figure(&cluster[2], "registered_jobs");
    assert!(left < 50, "it has lost none");
    cluster.wait_connected();
    for id in &ids {
        eventually(secs(10), "it has all again", || {
            show(&cluster[2], id).is_some()
        });
    }
}

#[test]
fn copies_go_on_after_the_death_of_the_node_that_took_the_job() {
    let mut cluster = Cluster::new(4);
    let mut c = cluster[0].client();
    // One copy is surely made; the others would be made by the node that dies.
    cluster[2].sigstop();
    cluster[3].sigstop();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 SYNC 1 RETRY 6");
    let heard = || show(&cluster[1], &id).is_some();
    for _ in 0..200 {
        if heard() {
            break;
        }
        std::thread::sleep(ms(5));
    }
    // It was not among the three: another attempt.
    if !heard() {
        let start = Instant::now();
        eventually(secs(10), "one more is asked", heard);
        assert!(start.elapsed() < secs(5));
    }
    cluster[0].kill9();
    cluster[2].sigcont();
    cluster[3].sigcont();
    let count = || {
        (1..4)
            .filter(|at| show(&cluster[*at], &id).is_some())
            .count()
    };
    // The dead node still counts as a holder until it is given up.
    eventually(secs(10), "the others have it", || count() >= 2);
    let mut workers = [
        cluster[1].client(),
        cluster[2].client(),
        cluster[3].client(),
    ];
    for worker in &mut workers {
        worker.start("GETJOB TIMEOUT 10000 FROM q");
    }
    let (first, got) = first_of(&mut workers);
    assert_eq!(got, id);
    workers[first].run(&format!("ACKJOB {id}")).expect_number(1);
    for (at, worker) in workers
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| *at != first)
    {
        let reply = worker.read(secs(15)).expect("GETJOB ends");
        assert!(reply.is_null(), "another node, {at}, delivers {reply:?}");
    }
}

#[test]
fn a_job_whose_copies_are_on_their_way_is_finished_after_a_restart() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::AofAlways));
    let mut c = cluster[0].client();
    let mut ids = Vec::new();
    cluster[1].sigstop();
    cluster[2].sigstop();
    for _ in 0..20 {
        ids.push(add_with(&mut c, "q", "x", "0 REPLICATE 3 SYNC 1"));
    }
    cluster[0].kill9();
    cluster[0].start_again();
    cluster[1].sigcont();
    cluster[2].sigcont();
    cluster.wait_connected();
    for id in &ids {
        eventually(secs(10), "all have it", || holders(&cluster, id).len() == 3);
    }
    for at in 0..3 {
        wait_figure(&cluster[at], "under_replicated", 0, secs(10));
    }
    let seen = drain(&cluster, "q", secs(2));
    assert_eq!(seen.len(), 20);
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    wait_empty(&cluster, secs(10));
}

#[test]
fn acknowledged_meanwhile_the_last_copy_is_never_delivered() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    cluster[2].sigstop();
    let start = Instant::now();
    let id = add_with(&mut c, "q", "x", "2000 REPLICATE 3 SYNC 2 RETRY 1");
    assert!(start.elapsed() < ms(500));
    take_now(&mut c, "q").expect("the job");
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    cluster[2].sigcont();
    wait_empty(&cluster, secs(10));
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
}

#[test]
fn data_written_while_jobs_wait_or_are_acknowledged_can_be_read() {
    for rewrite in ["BGREWRITEAOF", "DEBUG RELOAD"] {
        let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::AofAlways));
        let mut c = cluster[0].client();
        let acked = add_with(&mut c, "q", "acked", "0 REPLICATE 3");
        cluster[2].sigstop();
        c.run(&format!("ACKJOB {acked}")).expect_number(1);
        let mut producer = cluster[0].client();
        start_add(&mut producer, "q", "waits", "60000 REPLICATE 3 RETRY 1");
        wait_figure(&cluster[0], "wait_repl_jobs", 1, secs(5));
        c.run(&format!("ACKJOB {}", unknown_id(1, 0x05a1)));
        match rewrite {
            "DEBUG RELOAD" => c.run(rewrite).expect_ok(),
            _ => {
                c.run(rewrite);
                eventually(secs(20), "it is rewritten", || {
                    let info = cluster[0].info("persistence");
                    info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
                });
            }
        }
        assert_eq!(state(&cluster[0], &acked), "acked", "{rewrite}");
        cluster[0].kill9();
        cluster[0].start_again();
        assert_eq!(state(&cluster[0], &acked), "acked", "{rewrite}");
        assert_eq!(figure(&cluster[0], "dummy_acks"), 1, "{rewrite}");
        cluster[2].sigcont();
        cluster.wait_connected();
        // Nobody waits for the second any more: it goes its way, and is delivered once.
        let seen = drain(&cluster, "q", secs(5));
        assert_eq!(seen.len(), 1, "{rewrite}: {seen:?}");
        assert!(seen.values().all(|times| *times == 1), "{seen:?}");
        wait_empty(&cluster, secs(20));
    }
}

/// Cuts the last two of five off from the others: each side lets in who has the
/// password of that side only.
fn set_passwords(cluster: &Cluster, passwords: [&str; 5]) {
    for (at, password) in passwords.into_iter().enumerate() {
        let mut c = cluster[at].client();
        let user = "resetpass on resetkeys resetchannels -@all +disque.bus +client|setname";
        c.run(&format!("ACL SETUSER bus {user} >{password}"))
            .expect_ok();
        c.run(&format!(
            "CONFIG SET disque.bus-user bus disque.bus-password {password}"
        ))
        .expect_ok();
    }
    for at in 0..5 {
        cluster[at].client().run("CLIENT KILL USER bus");
    }
}

/// Adds at some nodes, and has workers take and acknowledge what they find there.
fn work(
    clients: &mut [Client],
    rounds: usize,
    added: &mut BTreeSet<String>,
    seen: &mut BTreeMap<String, usize>,
) {
    for round in 0..rounds {
        for client in clients.iter_mut() {
            start_add(client, "q", "x", "300 REPLICATE 3 RETRY 2");
            if let Value::Bulk(id) = client.reply().value() {
                added.insert(String::from_utf8_lossy(id).into_owned());
            }
        }
        // Fewer than are added: most are taken after the cut.
        let at = round % clients.len();
        if let Some(job) = take_now(&mut clients[at], "q") {
            clients[at].run(&format!("ACKJOB {}", job.id));
            *seen.entry(job.id).or_insert(0) += 1;
        }
        std::thread::sleep(ms(20));
    }
}

#[test]
fn on_both_sides_of_a_cut_jobs_are_delivered_and_acknowledged() {
    let cluster = Cluster::strangers(5, Options::new());
    set_passwords(&cluster, ["a"; 5]);
    cluster.join();
    let mut clients: Vec<Client> = (0..5).map(|at| cluster[at].client()).collect();
    let (mut added, mut seen) = (BTreeSet::new(), BTreeMap::new());
    work(&mut clients, 50, &mut added, &mut seen);
    let before = added.len();
    set_passwords(&cluster, ["a", "a", "a", "b", "b"]);
    for at in 0..5 {
        let size = if at < 3 { 3 } else { 2 };
        wait_figure(&cluster[at], "reachable_nodes", size, secs(20));
    }
    let (large, small) = clients.split_at_mut(3);
    work(large, 100, &mut added, &mut seen);
    assert!(added.len() >= before + 290, "{} were added", added.len());
    start_add(&mut small[0], "q", "x", "0 REPLICATE 3");
    small[0].reply().expect_error("NOREPL");
    // What the others had queued comes up here as well, and is done here.
    for _ in 0..100 {
        for client in small.iter_mut() {
            if let Some(job) = take_now(client, "q") {
                client.run(&format!("ACKJOB {}", job.id));
                *seen.entry(job.id).or_insert(0) += 1;
            }
        }
        std::thread::sleep(ms(40));
    }
    set_passwords(&cluster, ["a"; 5]);
    cluster.wait_connected();
    for (id, times) in drain(&cluster, "q", secs(6)) {
        *seen.entry(id).or_insert(0) += times;
    }
    for id in &added {
        assert!(seen.contains_key(id), "{id} was never delivered");
    }
    // On each side once at most, and once more where the cut came in between.
    let most = seen.values().max().unwrap();
    assert!(*most <= 3, "{most} times");
    wait_empty(&cluster, secs(30));
}
