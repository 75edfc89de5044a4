//! What a search costs beside the query that pgvector would answer: `match_chunks` against that query over the same
//! rows, comparing all of 20,000 chunks, and by index in 100,000.
//!
//! Both are asked in turn on one connection for the same vectors. The bare query finds the 50 candidates among which a
//! search chooses, with the same effort of the index. Vectors are random, which is the worst case for an index.

use crate::figure::{Bound, Figure, median};
use crate::ground::{sized, unlimited};
use dialectic_tests::*;
use postgres::Client;
use serde_json::json;
use std::time::Instant;

/// The most times the bare query, comparing all chunks: 1.1 to 1.4 at the first measurement.
const MOST_RATIO: f64 = 3.0;
/// The same by index: 3.8 to 4.1 at the first measurement. The rest of a search, some 3 ms, weighs more beside 2 ms.
const MOST_INDEX_RATIO: f64 = 5.0;
const MODEL: &str = "nomic-embed-text";
const SEARCHES: i32 = 30;

/// A session over a project of so many chunks with vectors of so many numbers.
fn filled(client: &mut Client, chunks: i32, dimensions: i32) -> (Uuid, Uuid) {
    let project: Uuid = one(client, "select dialectic.create_project('Large', 'x', process => 'essay')", &[]);
    let source: Uuid = one(client, "select dialectic.add_resource($1, 'large.md', 'text')", &[&project]);
    client
        .execute(
            "insert into dialectic.memory (project_id, source_id, chunk_no, content, tokens, content_hash, text_config, \
                 lexemes, embedding_model, embedding) \
             select $1, $2, n, repeat('some words of a chunk ', 50) || n, 250, sha256(n::text::bytea), 'english', \
                 to_tsvector('english', 'some words of a chunk ' || n), $3, \
                 (select array_agg((random() - 0.5)::real) from generate_series(1, $4::integer) where n > 0) \
             from generate_series(1, $5::integer) as n",
            &[&project, &source, &MODEL, &dimensions, &chunks],
        )
        .expect("chunks");
    client.batch_execute("vacuum analyze dialectic.memory").expect("vacuum");
    client
        .execute("select dialectic.set_config('embedding_model', to_jsonb($1::text))", &[&MODEL])
        .expect("an embedding model");
    (project, one(client, "select dialectic.start_session($1, '{sim-a}')", &[&project]))
}

/// Milliseconds that a statement takes for a vector.
fn milliseconds(client: &mut Client, statement: &str, id: Uuid, vector: &str) -> f64 {
    let begun = Instant::now();
    let rows = client.query(statement, &[&id, &vector]).expect("a search");
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    assert!(rows.len() >= 10, "{} rows", rows.len());
    took
}

fn compare(client: &mut Client, what: &str, (project, session): (Uuid, Uuid), ordered: &str) -> Figure {
    let search = "select id from dialectic.match_chunks($1, $2::text::vector, 10)";
    let bare = format!(
        "select id from dialectic.memory where project_id = $1 and embedding_model = '{MODEL}' \
         order by {ordered} <=> $2::text::vector limit 50"
    );
    client.batch_execute("set hnsw.ef_search = 100").expect("a setting");
    let (mut searches, mut queries) = (Vec::new(), Vec::new());
    for nth in 0..SEARCHES + 2 {
        let vector: String = one(
            client,
            "select embedding::text from dialectic.memory where project_id = $1 and chunk_no = $2",
            &[&project, &(nth * 7 + 1)],
        );
        let pair = (milliseconds(client, search, session, &vector), milliseconds(client, &bare, project, &vector));
        // The first two fill caches.
        if nth >= 2 {
            searches.push(pair.0);
            queries.push(pair.1);
        }
    }
    let (search, query) = (median(&searches), median(&queries));
    let with = json!({"match_chunks_ms": search, "bare_ms": query, "searches": SEARCHES});
    let what = format!("{what}: {search:.1} ms, bare query {query:.1} ms");
    let most = if ordered == "embedding" { MOST_RATIO } else { MOST_INDEX_RATIO };
    Figure::new(what, search / query, "×", Bound::AtMost(most), with)
}

pub(crate) fn measure() -> Vec<Figure> {
    let chunks = sized(20_000, 1000);
    let figure = |dimensions: i32| {
        let (_database, mut client) = unlimited();
        let filled = filled(&mut client, chunks, dimensions);
        let what = format!("match_chunks comparing {chunks} chunks of {dimensions} dimensions");
        compare(&mut client, &what, filled, "embedding")
    };
    [256, 1536].map(figure).into()
}

pub(crate) fn measure_index() -> Vec<Figure> {
    let chunks = sized(100_000, 21_000);
    let (_database, mut client) = unlimited();
    let filled = filled(&mut client, chunks, 256);
    client.batch_execute("set maintenance_work_mem = '512MB'").expect("a setting");
    let begun = Instant::now();
    client.execute("select dialectic.create_memory_index($1)", &[&MODEL]).expect("an index");
    eprintln!("     index of {chunks} chunks: {:.0} s", begun.elapsed().as_secs_f64());
    let what = format!("match_chunks by index in {chunks} chunks of 256 dimensions");
    vec![compare(&mut client, &what, filled, "embedding::vector(256)")]
}
