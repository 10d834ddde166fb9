//! Options of collectives as text, launchers of MPI programs, and the ranks of channels.

use std::sync::Arc;
use std::time::Duration;

use vireo_collectives::{CollectiveOptions, Collectives, DEFAULT_LIMIT, Meeting};
use vireo_core::status::Result;
use vireo_hal::{Channel, ChannelParams, ChannelProvider, ChannelRank};

#[test]
fn texts() {
    let options =
        |meeting, rank_and_count, limit| CollectiveOptions { meeting, rank_and_count, limit, shares_memory: true };
    let tcp = || Meeting::Tcp("[::1]:4000".to_string());
    assert_eq!("tcp://[::1]:4000".parse::<CollectiveOptions>().unwrap(), options(tcp(), None, DEFAULT_LIMIT));
    assert_eq!(
        "tcp://[::1]:4000,1,2".parse::<CollectiveOptions>().unwrap(),
        options(tcp(), Some((1, 2)), DEFAULT_LIMIT)
    );
    let name = Meeting::Process("name".to_string());
    assert_eq!(
        "process://name,0,3,7".parse::<CollectiveOptions>().unwrap(),
        options(name, Some((0, 3)), Duration::from_secs(7))
    );
    let without = CollectiveOptions { shares_memory: false, ..options(tcp(), Some((1, 2)), DEFAULT_LIMIT) };
    assert_eq!("tcp://[::1]:4000,1,2,no_shared_memory".parse::<CollectiveOptions>().unwrap(), without);
    for text in [
        "",
        "no_shared_memory",
        "tcp://",
        "tcp://host",
        "tcp://:1",
        "tcp://host:x",
        "udp://host:1",
        "tcp://host:1,0",
        "tcp://host:1,0,1,0",
        "tcp://host:1,0,1,2,3",
    ] {
        let failure = text.parse::<CollectiveOptions>().expect_err(text);
        assert!(failure.message().contains("expected tcp://HOST:PORT"), "{text}: {failure}");
    }
    for text in ["process://a,2,2", "process://a,-1,2", "process://a,0,5000", "process://a,0,x"] {
        let failure = text.parse::<CollectiveOptions>().expect_err(text);
        assert!(failure.message().contains("expected a number of ranks from 1 to 4096"), "{text}: {failure}");
    }
}

#[test]
fn launchers() {
    let launched = |text: &str, variables: &[(&str, &str)]| {
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string())
        };
        let options: CollectiveOptions = text.parse().unwrap();
        options.with_launcher(variable).map(|options| options.rank_and_count)
    };
    let (meeting, pmi) = ("tcp://localhost:1", [("PMI_RANK", "1"), ("PMI_SIZE", "4")]);
    let open_mpi = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "3")];
    assert_eq!(launched(meeting, &pmi).unwrap(), Some((1, 4)));
    assert_eq!(launched(meeting, &open_mpi).unwrap(), Some((2, 3)));
    assert_eq!(launched(meeting, &[]).unwrap(), None);
    assert_eq!(launched("tcp://localhost:1,0,2", &pmi).unwrap(), Some((0, 2)));
    let failure = launched(meeting, &[("PMI_RANK", "4"), ("PMI_SIZE", "4")]).expect_err("a failure");
    assert!(failure.message().starts_with("PMI_RANK and PMI_SIZE: rank \"4\" of \"4\" ranks"), "{failure}");
}

#[derive(Debug)]
struct Provider;

impl ChannelProvider for Provider {
    fn default_rank_and_count(&self) -> Result<ChannelRank> {
        Ok(ChannelRank { rank: 1, count: 2 })
    }

    fn exchange_default_id(&self, _id: &[u8]) -> Result<Vec<u8>> {
        Ok(b"provided".to_vec())
    }
}

#[test]
fn ranks_of_channels() {
    let collectives = Collectives::default();
    let channel = |rank, count| {
        let params = ChannelParams { id: b"ranks".to_vec(), rank, count, ..ChannelParams::default() };
        collectives.channel(&params).map(|channel| channel.rank_and_count())
    };
    let message = |rank, count| channel(rank, count).expect_err("a failure").to_string();
    assert_eq!(channel(0, 1).unwrap(), ChannelRank { rank: 0, count: 1 });
    assert!(message(-1, -1).contains("a channel without rank and count"));
    assert!(message(-1, 2).contains("expected both or neither"));
    assert!(message(0, i32::MAX).contains("expected a count from 1 to 4096"));
    assert!(message(2, 2).contains("a rank below it"));
    let provider: Arc<dyn ChannelProvider> = Arc::new(Provider);
    collectives.replace_provider(&provider);
    assert_eq!(channel(-1, -1).unwrap(), ChannelRank { rank: 1, count: 2 });
}
