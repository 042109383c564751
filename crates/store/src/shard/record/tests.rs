//! What records look like as bytes: a log of any release says the same to every later one.

use model::SessionId;
use wire::data::ROOT;

use super::*;
use crate::shard::record::losses::ToldOf;

/// One with a home shard, and of more than one byte.
const INO: Ino = Ino((1 << 48) + 300);
const SECOND: Ino = Ino(129);
const SESSION: SessionId = SessionId(*b"sixteen bytes!!!");

const TIME: Time = Time { seconds: -1, nanos: 5 };

fn inode() -> InodeRecord {
    InodeRecord {
        kind: Kind::Directory,
        mode: 0o755,
        nlink: 2,
        uid: 3,
        gid: 4,
        rdev: 5,
        size: 6,
        live: true,
        atime: TIME,
        mtime: TIME,
        ctime: TIME,
        target: b"t".to_vec(),
        parent: SECOND,
        next_cookie: 7,
        xattrs: vec![(b"user.a".to_vec(), b"v".to_vec())],
    }
}

fn hex(entry: &Entry) -> String {
    let bytes = postcard::to_stdvec(entry).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An entry with each of these records has these bytes, which say the same to whoever reads them.
fn frozen(records: &[(Record, &str)]) {
    let entry = |(record, _): &(Record, &str)| Entry {
        origin: Some(Origin { session: SESSION, id: 300 }),
        record: record.clone(),
    };
    let wrong: Vec<String> = records
        .iter()
        .filter(|record| hex(&entry(record)) != record.1)
        .map(|record| format!("{:?}\n{}", record.0, hex(&entry(record))))
        .collect();
    assert!(wrong.is_empty(), "other bytes than before:\n{}", wrong.join("\n"));
    for record in records {
        let bytes = postcard::to_stdvec(&entry(record)).unwrap();
        assert_eq!(postcard::from_bytes::<Entry>(&bytes).unwrap(), entry(record));
    }
}

#[test]
fn changes_of_names_have_the_bytes_that_they_always_had() {
    let name = || b"n".to_vec();
    frozen(&[
        (
            Record::Inode { ino: INO, inode: inode() },
            "017369787465656e206279746573212121ac0200ac82808080804001ed030203040506010105\
             0105010501748101070106757365722e610176",
        ),
        (
            Record::Entry { parent: ROOT, name: name(), ino: INO, cookie: 3 },
            "017369787465656e206279746573212121ac020101016eac82808080804003",
        ),
        (Record::NextIno { next: INO }, "017369787465656e206279746573212121ac0202ac828080808040"),
        (
            Record::Make { parent: ROOT, name: name(), ino: INO, inode: inode() },
            "017369787465656e206279746573212121ac020301016eac82808080804001ed030203040506\
             0101050105010501748101070106757365722e610176",
        ),
        (
            Record::Link { ino: INO, parent: SECOND, name: name(), time: TIME },
            "017369787465656e206279746573212121ac0204ac8280808080408101016e0105",
        ),
        (
            Record::Remove { parent: INO, name: name(), time: TIME },
            "017369787465656e206279746573212121ac0205ac828080808040016e0105",
        ),
        (
            Record::Rename { parent: INO, name: name(), new_parent: SECOND, new_name: name(), time: TIME },
            "017369787465656e206279746573212121ac0206ac828080808040016e8101016e0105",
        ),
        (
            Record::Exchange { parent: INO, name: name(), new_parent: SECOND, new_name: name(), time: TIME },
            "017369787465656e206279746573212121ac0207ac828080808040016e8101016e0105",
        ),
        (Record::Destroyed { ino: INO }, "017369787465656e206279746573212121ac020dac828080808040"),
        (Record::Answered { ino: Some(INO) }, "017369787465656e206279746573212121ac020e01ac828080808040"),
        (Record::Numbered { until: INO }, "017369787465656e206279746573212121ac0217ac828080808040"),
    ]);
}

#[test]
fn changes_of_inodes_have_the_bytes_that_they_always_had() {
    let change = AttrChange {
        mode: Some(0o600),
        uid: None,
        gid: None,
        size: Some(300),
        atime: None,
        mtime: None,
        ctime: TIME,
    };
    let name = || b"user.a".to_vec();
    frozen(&[
        (
            Record::SetAttr { ino: INO, change },
            "017369787465656e206279746573212121ac0208ac828080808040018003000001ac0200000105",
        ),
        (
            Record::SetXattr { ino: INO, name: name(), value: b"v".to_vec(), time: TIME },
            "017369787465656e206279746573212121ac0209ac82808080804006757365722e6101760105",
        ),
        (
            Record::RemoveXattr { ino: INO, name: name(), time: TIME },
            "017369787465656e206279746573212121ac020aac82808080804006757365722e610105",
        ),
    ]);
}

#[test]
fn what_becomes_of_open_files_and_sessions_has_the_bytes_that_it_always_had() {
    let fragment = 200.into();
    frozen(&[
        (Record::Opened { ino: INO }, "017369787465656e206279746573212121ac020bac828080808040"),
        (
            Record::Settled { ino: INO, size: 1, mtime: TIME },
            "017369787465656e206279746573212121ac020cac828080808040010105",
        ),
        (
            Record::Began { session: SESSION },
            "017369787465656e206279746573212121ac020f7369787465656e206279746573212121",
        ),
        (
            Record::Ended { session: SESSION },
            "017369787465656e206279746573212121ac02107369787465656e206279746573212121",
        ),
        (
            Record::Reserved { ino: INO, offset: 1, end: 2 },
            "017369787465656e206279746573212121ac0211ac8280808080400102",
        ),
        (
            Record::Counted { ino: INO, times: 1, epoch: 2 },
            "017369787465656e206279746573212121ac0213ac8280808080400102",
        ),
        (
            Record::SetAcl { ino: INO, mode: 0o640, value: None, time: TIME },
            "017369787465656e206279746573212121ac0215ac828080808040a003000105",
        ),
        (Record::Followed { fragment, verifier: 3 }, "017369787465656e206279746573212121ac0219c80103"),
        (
            Record::Cut { inos: vec![INO, SECOND], overflown: true },
            "017369787465656e206279746573212121ac021a02ac828080808040810101",
        ),
        (
            Record::Confirmed { inos: vec![INO, SECOND] },
            "017369787465656e206279746573212121ac021c02ac8280808080408101",
        ),
    ]);
}

#[test]
fn what_is_known_of_losses_has_the_bytes_that_it_always_had() {
    let (fragment, verifier, session) = (200.into(), 300, SESSION);
    let inos = || vec![INO, SECOND];
    let of = ToldOf { ino: INO, fragment, verifier };
    let all = [
        LossRecord::Lost { first: 300, fragment, verifier, time: TIME, inos: inos(), told: true },
        LossRecord::Told { losses: vec![of] },
        LossRecord::Left { fragment, verifier, inos: inos(), any: false, names: true },
        LossRecord::Safe { fragment, verifier },
        LossRecord::Serves { fragment, verifier },
        LossRecord::Heard { session, fragment, verifier },
        LossRecord::Quiet { session },
        LossRecord::Busy { session },
    ];
    let bytes = [
        "017369787465656e206279746573212121ac021d00ac02c801ac02010502ac828080808040810101",
        "017369787465656e206279746573212121ac021d0101ac828080808040c801ac02",
        "017369787465656e206279746573212121ac021d02c801ac0202ac82808080804081010001",
        "017369787465656e206279746573212121ac021d03c801ac02",
        "017369787465656e206279746573212121ac021d04c801ac02",
        "017369787465656e206279746573212121ac021d057369787465656e206279746573212121c801ac02",
        "017369787465656e206279746573212121ac021d067369787465656e206279746573212121",
        "017369787465656e206279746573212121ac021d077369787465656e206279746573212121",
    ];
    let records: Vec<_> = all.into_iter().map(Record::Losses).zip(bytes).collect();
    frozen(&records);
}
