//! Many events in one append, which no single statement stores.

use cleveragents_proof::samples::{event, payload, stream};
use cleveragents_proof::verbs::{events, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::journal::{chained, text, verified};

contract! {
    many_events_of_one_append_follow_each_other,
}

fn many_events_of_one_append_follow_each_other(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    let stream = stream();
    block_on(async {
        let head = write(&opened.store, move |unit| {
            unit.append(stream, &[event(1)])?;
            unit.append(stream, &(2..=257).map(event).collect::<Vec<_>>())
        })
        .await;
        let found = events(&opened.store, stream).await;
        chained(&found);
        assert_eq!((head.stream_seq, &head.hash), (257, &found[256].hash));
        let texts: Vec<String> = found.iter().map(text).map(str::to_owned).collect();
        assert_eq!(texts, (1..=257).map(payload).collect::<Vec<_>>());
        assert!(found.is_sorted_by_key(|event| event.seq));
        assert_eq!(verified(&opened.store, stream).await.events, 257);
    });
}
