//! Lost answers: what is told is true, and nothing is written twice.

use std::time::Duration;

use store::etcd::Config;
use store::testing::{delete, key, put};
use store::{Error, Expect, Options};

use super::peer::Cluster;
use super::proxy::{Mode, Proxy};
use super::{config, open, take, text, write};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_is_lost_is_told_as_it_is_and_happens_once() {
    let Some(etcd) = Cluster::start(1) else { return };
    let proxy = Proxy::start(etcd.members[0].client).await;
    let quick = Config { attempt: Duration::from_millis(400), ..config(vec![proxy.url(), etcd.members[0].url()]) };
    let k = |item: &str| key("core/things", item);
    let witness = open(config(etcd.urls()), Options::default()).await;
    // Each case has a store whose requests go through the proxy first.
    for (mode, name) in [(Mode::Mute, "mute"), (Mode::BlackHole, "hole"), (Mode::Cut, "cut")] {
        for (case, expect) in [("any", Expect::Anything), ("absent", Expect::Absent), ("at", Expect::At(0))] {
            let item = k(&format!("{name}-{case}"));
            proxy.set(Mode::Pass);
            let store = open(quick.clone(), Options::default()).await;
            let expect = match expect {
                Expect::At(_) => Expect::At(write(&store, &item, "before").await),
                other => other,
            };
            store.sync().await.unwrap();
            let mut seen = witness.watch(&item.collection, &item.item, witness.sync().await.unwrap()).unwrap();
            proxy.set(mode);
            let written = store.write(put(&item, expect, "once")).await.unwrap();
            assert_eq!(store.get(&item).unwrap().revision, written.revision);
            assert_eq!(written.prev.is_some(), case == "at");
            let after = write(&witness, &item, "after").await;
            let events = take(&mut seen, 2).await;
            let told: Vec<_> = events.iter().map(|e| (e.revision, text(e))).collect();
            let expected = [(written.revision, "once"), (after, "after")];
            assert_eq!(told, expected.map(|(r, v)| (r, format!("{}={v}", item.item))), "{name} {case}");
        }
    }

    // A delete bears no mark: done or not is told only where it is sure.
    for (mode, sure) in [(Mode::Mute, false), (Mode::BlackHole, true)] {
        proxy.set(Mode::Pass);
        let store = open(quick.clone(), Options::default()).await;
        let item = k(&format!("delete-{sure}"));
        let at = write(&store, &item, "1").await;
        store.sync().await.unwrap();
        proxy.set(mode);
        match store.write(delete(&item, Expect::At(at))).await {
            Ok(_) => assert!(sure),
            Err(Error::Unknown(_)) => assert!(!sure),
            Err(other) => panic!("{other}"),
        }
        assert!(store.get(&item).is_none());
    }
    proxy.set(Mode::Pass);
}
