//! A client behind PostgREST or Supabase: the statements that PostgREST sends, and a real one where it is installed.

use crate::markdown::root;
use dialectic_tests::server::{Server, soon};
use dialectic_tests::*;
use postgres::{Client, NoTls};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const SECRET: &str = "a-secret-of-at-least-32-characters";
const ANN: &str = r#"{"role": "authenticated", "sub": "ann"}"#;

/// A served database whose users sign in with claims, as PostgREST and Supabase set it up.
fn behind_postgrest() -> (Server, Client) {
    let (server, mut client) = Server::serving("dialectic.identity = 'jwt'");
    client
        .batch_execute(
            "create role anon nologin; create role authenticated nologin; create role authenticator login noinherit; \
             grant anon, authenticated to authenticator; select dialectic.grant_user('authenticated')",
        )
        .expect("the roles of PostgREST");
    (server, client)
}

/// The transaction that PostgREST makes of a request: role and claims hold for it alone.
fn request(client: &mut Client, claims: &str, statement: &str, body: &serde_json::Value) -> serde_json::Value {
    let mut transaction = client.build_transaction().start().expect("BEGIN");
    transaction
        .execute(
            "select set_config('search_path', '\"dialectic\"', true), set_config('role', 'authenticated', true), \
             set_config('request.jwt.claims', $1, true), set_config('request.method', 'POST', true), \
             set_config('request.path', '/rpc/run', true), set_config('request.headers', '{}', true), \
             set_config('request.cookies', '{}', true)",
            &[&claims],
        )
        .expect("the settings of a request");
    let answer = transaction.query_one(statement, &[body]).unwrap_or_else(|error| panic!("{statement}\n{error:?}"));
    transaction.commit().expect("COMMIT");
    answer.get(0)
}

/// POST /rpc/run
const RUN: &str = r#"with pgrst_source as (
    select pgrst_call.pgrst_scalar from (select $1::json as json_data) pgrst_payload,
    lateral (select "prompt", "process", "models" from json_to_record(pgrst_payload.json_data)
             as _("prompt" text, "process" text, "models" text[]) limit 1) pgrst_body,
    lateral (select "dialectic"."run"("prompt" := pgrst_body."prompt", "process" := pgrst_body."process",
                                      "models" := pgrst_body."models") pgrst_scalar) pgrst_call)
  select coalesce(json_agg(_postgrest_t.pgrst_scalar)->0, 'null') as body
  from (select pgrst_scalar from pgrst_source) _postgrest_t"#;

/// GET /documents?select=document_key,model&session_id=eq.…&order=document_key
const DOCUMENTS: &str = r#"with pgrst_source as (
    select "dialectic"."documents"."document_key", "dialectic"."documents"."model" from "dialectic"."documents"
    where "dialectic"."documents"."session_id" = ($1::json #>> '{}')::uuid
    order by "dialectic"."documents"."document_key")
  select coalesce(json_agg(_postgrest_t), '[]') as body from (select * from pgrst_source) _postgrest_t"#;

fn essay() -> serde_json::Value {
    serde_json::json!({"prompt": "Is a second lathe worth it?", "process": "essay", "models": ["sim-a"]})
}

fn completed(client: &mut Client, session: &str) {
    soon("the session completes", || {
        one(client, "select status = 'completed' from dialectic.sessions where id::text = $1", &[&session])
    });
    assert_eq!(
        one::<String>(client, "select owner from dialectic.sessions where id::text = $1", &[&session]),
        "jwt:ann"
    );
}

#[test]
fn statements_of_postgrest_run_as_the_user_of_the_token() {
    let (server, mut admin) = behind_postgrest();
    let mut client = server.config("law").user("authenticator").connect(NoTls).expect("the authenticator");
    let session = request(&mut client, ANN, RUN, &essay());
    let id = session.as_str().expect("an id").to_owned();
    completed(&mut admin, &id);
    let documents = request(&mut client, ANN, DOCUMENTS, &session);
    let keys: Vec<&str> =
        documents.as_array().expect("a list").iter().filter_map(|row| row["document_key"].as_str()).collect();
    assert_eq!(keys, ["antithesis", "synthesis", "thesis"]);
    let bob = r#"{"role": "authenticated", "sub": "bob"}"#;
    assert_eq!(request(&mut client, bob, DOCUMENTS, &session), serde_json::json!([]), "what ann made is not bob's");
}

/// A PostgREST of the path, ended at the end.
struct Postgrest(Child, u16);

impl Postgrest {
    fn start(server: &Server) -> Option<Postgrest> {
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr()).expect("a port").port();
        let mut variables = server.environment("law");
        variables[2].1 = "authenticator".to_owned();
        let child = Command::new("postgrest")
            .envs(variables)
            .envs([("PGRST_DB_URI", "postgresql://"), ("PGRST_DB_SCHEMAS", "dialectic")])
            .envs([("PGRST_DB_ANON_ROLE", "anon"), ("PGRST_JWT_SECRET", SECRET), ("PGRST_SERVER_HOST", "127.0.0.1")])
            .env("PGRST_SERVER_PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let postgrest = Postgrest(child, port);
        soon("PostgREST answers", || postgrest.ask("GET", "/", "").is_some_and(|(status, _)| status == 200));
        Some(postgrest)
    }

    /// Sends a request as ann; the status and the body of the response.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.1)).ok()?;
        let (length, token) = (body.len(), token());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        socket.write_all(head.as_bytes()).ok()?;
        let mut response = String::new();
        socket.read_to_string(&mut response).ok()?;
        let status = response.split(' ').nth(1)?.parse().ok()?;
        Some((status, response.split_once("\r\n\r\n")?.1.to_owned()))
    }
}

impl Drop for Postgrest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A token of ann, signed with HS256.
fn token() -> String {
    let sign = "import sys, hmac, hashlib, base64\n\
                text = lambda b: base64.urlsafe_b64encode(b).rstrip(b'=')\n\
                body = text(b'{\"alg\":\"HS256\",\"typ\":\"JWT\"}') + b'.' + text(sys.argv[2].encode())\n\
                print((body + b'.' + text(hmac.new(sys.argv[1].encode(), body, hashlib.sha256).digest())).decode())";
    let signed = Command::new("/usr/bin/python3").args(["-c", sign, SECRET, ANN]).output().expect("python3");
    String::from_utf8(signed.stdout).expect("UTF-8").trim().to_owned()
}

#[test]
fn real_postgrest_runs_a_session_where_it_is_installed() {
    let is_installed = Command::new("postgrest").arg("--version").current_dir(root()).output().is_ok();
    if !is_installed {
        println!("postgrest is not in the path");
        return;
    }
    let (server, mut admin) = behind_postgrest();
    let postgrest = Postgrest::start(&server).expect("postgrest");
    let (status, session) = postgrest.ask("POST", "/rpc/run", &essay().to_string()).expect("a response");
    assert_eq!(status, 200, "{session}");
    // The body may come in chunks: the id is the one text in it.
    let id = session.split('"').nth(1).unwrap_or_else(|| panic!("an id in {session}"));
    completed(&mut admin, id);
    let (status, rows) =
        postgrest.ask("GET", &format!("/documents?select=document_key&session_id=eq.{id}"), "").expect("a response");
    assert_eq!((status, rows.matches("document_key").count()), (200, 3), "{rows}");
}
