//! The deepest accepted templates and values need less than half of an ordinary stack; deeper ones are refused.

use super::*;
use crate::prompt::{Templates, UsedAs, check, unknown_variables};
use serde_json::json;

/// Half of the stack of a thread that renders. An overflow ends the test process.
const STACK: usize = 1 << 20;

fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(STACK).spawn(work).unwrap().join().unwrap()
}

/// Templates that are nested `depth` levels deep, each in another way.
fn nested(depth: usize) -> [(&'static str, usize, String); 16] {
    let chain = |start: &str, piece: &str, end: &str, count: usize| format!("{start}{}{end}", piece.repeat(count));
    let around = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
    [
        ("plus", OPERATORS, chain("{{ 1", "+1", " }}", depth)),
        ("concatenation", OPERATORS, chain("{{ 1", "~1", " }}", depth)),
        ("not", OPERATORS, chain("{{ ", "not ", "1 }}", depth)),
        ("minus", OPERATORS, chain("{{ ", "-", "1 }}", depth)),
        ("and", OPERATORS, chain("{{ 1", " and 1", " }}", depth)),
        ("else", OPERATORS, chain("{{ 1", " if 0 else 1", " }}", depth / 2)),
        ("attribute", OPERATORS, chain("{{ x", ".a", " is defined }}", depth - 1)),
        ("filter", BRACKETS, chain("{{ 1", "|abs", " }}", depth)),
        ("subscript", BRACKETS, chain("{{ x", "[0]", " }}", depth)),
        ("parenthesis", BRACKETS, format!("{{{{ {} }}}}", around("(", "1", ")"))),
        ("list", BRACKETS, format!("{{{{ {} }}}}", around("[", "1", "]"))),
        ("map", BRACKETS, format!("{{% set x = {} %}}{{{{ x }}}}", around("{1:", "1", "}"))),
        ("if", BLOCKS, around("{% if 1 %}", "x", "{% endif %}")),
        ("for", BLOCKS, around("{% for i in [1] %}", "x", "{% endfor %}")),
        ("with", BLOCKS, around("{% with a = 1 %}", "x", "{% endwith %}")),
        ("elif", BLOCKS, format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(depth - 1))),
    ]
}

fn nested_in(way: usize, depth: usize) -> String {
    nested(depth)[way].2.clone()
}

#[test]
fn deepest_accepted_template_compiles_and_renders_on_a_small_stack() {
    for (way, (what, most, _)) in nested(2).into_iter().enumerate() {
        let body = nested_in(way, most);
        on_small_stack(move || {
            let bodies = [("t".to_owned(), body)];
            let set = Templates::new(bodies.clone()).unwrap_or_else(|problem| panic!("{what}: {problem}"));
            let _ = set.render("t", &json!({"x": {"a": {}}}));
            unknown_variables(&bodies.into(), "t", UsedAs::Step);
        });
    }
}

#[test]
fn template_that_is_nested_too_deep_is_refused() {
    for depth in [500, 10_000] {
        for (what, most, body) in nested(depth).into_iter().filter(|(_, _, body)| body.len() < 64 << 10) {
            let error = check("t", &body).unwrap_err();
            let expected = format!("are nested deeper than {most} levels");
            assert!(error.is_too_deep && error.message.ends_with(&expected), "{what}: {error}");
        }
    }
}

#[test]
fn parts_beside_each_other_are_not_nested() {
    let list = format!("{{% set x = [{}] %}}", "[a.b.c|lower, f(1 + 2)], ".repeat(500));
    assert!(check("t", &list).is_ok());
    assert!(check("t", &"{% if a %}{{ (1) }}{% elif b %}{% set x %}{% endset %}{% endif %}".repeat(500)).is_ok());
}

#[test]
fn blocks_and_expressions_together_fit_a_small_stack() {
    let expression = format!("{{% set y = {}1{}{} %}}", "[".repeat(19), "+1".repeat(380), "]".repeat(19));
    let body = format!("{}{expression}{}", "{% if 1 %}".repeat(BLOCKS), "{% endif %}".repeat(BLOCKS));
    on_small_stack(move || Templates::new([("t".to_owned(), body)]).unwrap().render("t", &json!({})).unwrap());
}

#[test]
fn recursion_of_the_engine_fits_a_small_stack() {
    let list = |inner: &str| format!("{}{inner}{}", "[".repeat(18), "]".repeat(18));
    for body in [
        "{% include 't' %}".to_owned(),
        format!("{{% set x = {} %}}{{% include 't' %}}", list("1")),
        format!("{{% macro m(x) %}}{{{{ x }}}}{{{{ m({}) }}}}{{% endmacro %}}{{{{ m(1) }}}}", list("x")),
        format!(
            "{{% for i in [1] recursive %}}{{% if loop.depth < 95 %}}{{{{ loop({}) }}}}{{% else %}}\
             {{{{ i }}}}{{{{ i|tojson }}}}{{{{ i == i }}}}{{{{ [i, i]|unique }}}}{{% endif %}}{{% endfor %}}",
            list("i")
        ),
        "{% block a %}{% block b %}{% block c %}{{ self.a() }}{% endblock %}{% endblock %}{% endblock %}".to_owned(),
    ] {
        on_small_stack(move || _ = Templates::new([("t".to_owned(), body)]).unwrap().render("t", &json!({})));
    }
}

#[test]
fn assigned_value_that_is_nested_too_deep_is_refused() {
    let part = format!("{{% set x = {}x{} %}}", "[".repeat(BRACKETS), "]".repeat(BRACKETS));
    for body in [
        format!("{{% set x = 1 %}}{}{{{{ x }}}}", "{% set x = [x] %}".repeat(1_000)),
        format!("{{% set x = 1 %}}{}{{{{ x }}}}", part.repeat(500)),
        format!("{{% set x = 1 %}}{}", "{% set x = {1: x} %}".repeat(1_000)),
        format!("{{% set x = 1 %}}{}", "{% set x = [1]|zip([x]) %}".repeat(1_000)),
        "{% set n = namespace(x=1) %}{% for i in range(9000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}".to_owned(),
    ] {
        let error = on_small_stack(move || {
            Templates::new([("t".to_owned(), body)]).unwrap().render("t", &json!({})).unwrap_err()
        });
        assert!(error.message.contains("a value is nested deeper than 256 levels"), "{error}");
    }
    let wide = "{% set x = 1 %}".to_owned() + &"{% set x = [x, x] %}".repeat(60);
    let error = Templates::new([("t".to_owned(), wide)]).unwrap().render("t", &json!({})).unwrap_err();
    assert!(error.message.contains("a value has more than 1048576 parts"), "{error}");
}

#[test]
fn namespace_keeps_nothing_that_refers_to_other_values() {
    let loops = "{% for i in range(9000) %}";
    for body in [
        "{% set n = namespace() %}{% set n.n = n %}".to_owned(),
        format!(
            "{{% set n = namespace(t=namespace()) %}}{loops}{{% set t = n.t %}}{{% set t.next = namespace() %}}\
             {{% set n.t = t.next %}}{{% endfor %}}"
        ),
        format!(
            "{{% set n = namespace(x=1) %}}{loops}{{% with p = n.x %}}{{% macro m() %}}{{{{ p }}}}{{% endmacro %}}\
             {{% set n.x = m %}}{{% endwith %}}{{% endfor %}}"
        ),
        format!(
            "{{% set n = namespace(x=1) %}}{loops}{{% for j in [1] %}}{{{{ loop.changed(n.x) }}}}\
             {{% set n.x = [loop] %}}{{% endfor %}}{{% endfor %}}"
        ),
    ] {
        let error = on_small_stack(move || {
            Templates::new([("t".to_owned(), body)]).unwrap().render("t", &json!({})).unwrap_err()
        });
        assert!(error.message.contains("a namespace keeps texts, numbers, lists and maps only"), "{error}");
    }
    let outer = "{% for i in [1] %}{% set outer = loop %}{% for j in [1] %}{{ outer.index }}{% endfor %}{% endfor %}";
    let set = Templates::new([("t".to_owned(), outer.to_owned())]).unwrap();
    assert_eq!(set.render("t", &json!({})).as_deref(), Ok("1"));
}

#[test]
fn assignments_mean_what_they_did() {
    for (body, expected) in [
        ("{% set y = nobody %}{{ y is defined }}", "False"),
        ("{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"),
        ("{% set a = 1 if x else 2 %}{{ a }}", "1"),
        ("{% with a = x, b = {'c': [1, 2]} %}{{ a.y }}{{ b.c[1] }}{% endwith %}", "12"),
        ("{%- set a = x.y -%}  {{ a }}", "1"),
        ("{% set a %}{{ x.y }}{% endset %}{{ a }}", "1"),
        ("{% set a | upper %}b{% endset %}{{ a }}", "B"),
        (
            "{% set n = namespace(s=[]) %}{% for i in range(3) %}{% set n.s = n.s + [i] %}{% endfor %}{{ n.s }}",
            "[0, 1, 2]",
        ),
        ("{% set r = [1, 2]|reverse %}{{ r|list }}{{ r|length }}", "[2, 1]2"),
        ("{% set a = '%}' ~ \"=\" %}{{ a }}", "%}="),
    ] {
        let set = Templates::new([("t".to_owned(), body.to_owned())]).unwrap_or_else(|e| panic!("{body}: {e}"));
        assert_eq!(set.render("t", &json!({"x": {"y": 1}})).as_deref(), Ok(expected), "{body}");
    }
}
