use super::*;

fn pair(number: u8) -> Pair {
    Pair {
        id: [number; 20],
        epoch: u64::from(number) << 40 | 7,
    }
}

fn table() -> HolderTable {
    HolderTable::starting_with(pair(0)).0
}

fn holders(table: &mut HolderTable, numbers: &[u8]) -> Vec<Holder> {
    let number = |&number: &u8| table.number(pair(number)).expect("there is room");
    numbers.iter().map(number).collect()
}

#[test]
fn a_pair_keeps_its_number() {
    let mut table = table();
    let first = holders(&mut table, &[1, 2, 3]);
    assert_eq!(
        holders(&mut table, &[3, 2, 1]),
        [first[2], first[1], first[0]]
    );
    assert_eq!(table.pair(first[1]), pair(2));
}

#[test]
fn other_data_are_another_holder() {
    let mut table = table();
    let old = holders(&mut table, &[1])[0];
    let renewed = Pair {
        epoch: 8,
        ..pair(1)
    };
    assert_ne!(table.number(renewed), Ok(old));
}

#[test]
fn numbers_end_and_known_pairs_stay_known() {
    let mut table = table();
    for epoch in 0..=u64::from(u16::MAX) {
        assert!(table.number(Pair { id: [0; 20], epoch }).is_ok());
    }
    assert_eq!(table.number(pair(1)), Err(TooManyHolders));
    let known = Pair {
        id: [0; 20],
        epoch: 9,
    };
    assert_eq!(table.number(known).map(Holder::index), Ok(9));
}

#[test]
fn confirmed_holders_come_first() {
    let mut table = table();
    let [a, b, c] = holders(&mut table, &[1, 2, 3])[..] else {
        unreachable!()
    };
    let mut set = HolderSet::of(a);
    assert!(set.add(b) && set.add(c) && !set.add(b));
    assert!(set.confirm(c) && !set.confirm(c));
    assert_eq!(set.confirmed().collect::<Vec<_>>(), [a, c]);
    assert_eq!(set.unconfirmed().collect::<Vec<_>>(), [b]);
    assert!(set.doubt(a) && !set.doubt(a) && set.contains(a));
    assert_eq!(set.confirmed().collect::<Vec<_>>(), [c]);
    assert!(set.remove(c) && !set.remove(c));
    assert_eq!((set.len(), set.confirmed_len()), (2, 0));
    assert!(set.confirm(b) && set.confirm(a) && set.is_complete());
}

#[test]
fn a_list_brings_the_same_set_to_another_node() {
    let (mut here, mut there) = (table(), table());
    holders(&mut there, &[9, 3]);
    let mut set = HolderSet::default();
    for holder in holders(&mut here, &[1, 2, 3]) {
        set.add(holder);
    }
    let sure = holders(&mut here, &[2])[0];
    set.confirm(sure);
    let list = here.list(&set);
    let arrived = there.set(list.pairs()).expect("there is room");
    let pairs = |table: &HolderTable, set: &HolderSet| {
        let mut all: Vec<_> = set
            .iter()
            .map(|holder| (table.pair(holder), set.is_confirmed(holder)))
            .collect();
        all.sort();
        all
    };
    assert_eq!(pairs(&here, &set), pairs(&there, &arrived));
}

#[test]
fn lists_of_no_sense_are_read_without_harm() {
    let mut table = table();
    let twice = [pair(1).to_bytes(), pair(1).to_bytes()].concat();
    for (bytes, confirmed, len, sure) in [
        (&[][..], 9, 0, 0),
        (&twice[..27], 1, 0, 0),
        (&twice[..55], 9, 1, 1),
        (&twice[..], u16::MAX, 1, 1),
        (&twice[..], 0, 1, 0),
    ] {
        let set = table.set(Pairs { bytes, confirmed }).expect("room");
        assert_eq!((set.len(), set.confirmed_len()), (len, sure));
    }
}

#[test]
fn ranks_differ_by_job() {
    let job = |digit: &str| {
        let text = format!("D-00000000-{}-05a1", digit.repeat(24));
        JobId::parse(text.as_bytes())
            .expect("an id")
            .expect("an id")
    };
    let (first, second) = (job("A"), job("/"));
    assert!(pair(1).rank(&first) < pair(2).rank(&first));
    assert!(pair(1).rank(&second) > pair(2).rank(&second));
}

#[test]
fn a_promoted_replica_has_the_number_of_its_primary_whichever_is_heard_of_first() {
    let epoch = 7;
    let later: Vec<u64> = descendants(epoch).take(2).collect();
    let line = [epoch, later[0], later[1]].map(|epoch| Pair { epoch, ..pair(1) });
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let mut table = table();
        let numbers = order.map(|at| table.number(line[at]).expect("there is room"));
        assert_eq!(numbers, [numbers[0]; 3], "{order:?}");
        assert!(line.iter().all(|pair| table.is_line_of(pair, numbers[0])));
        let stranger = Pair {
            epoch: 8,
            ..line[0]
        };
        assert!(!table.is_line_of(&stranger, numbers[0]));
        // It goes by the name of the one that is the node, and never back.
        table.advance(line[2]);
        table.advance(line[0]);
        assert_eq!(table.pair(numbers[0]), line[2]);
    }
}

#[test]
fn a_node_that_is_promoted_keeps_its_own_number() {
    let mut table = table();
    let own = holders(&mut table, &[0])[0];
    let epoch = descendants(pair(0).epoch).next().expect("there is one");
    let promoted = Pair { epoch, ..pair(0) };
    assert_eq!(table.rename(own, promoted), own);
    assert_eq!(table.pair(own), promoted);
    assert_eq!(table.number(pair(0)), Ok(own));
}
