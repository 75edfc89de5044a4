-- Joining and repairing, as pure helpers for users: the same that is done to answers.

create function knit(chunks text[]) returns text
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('chunks', coalesce(cardinality(chunks), 0) = 0);
    return _knit(chunks);
end
$$;
comment on function knit(text[]) is
    'The chunks of an answer that was cut off, as one text: nothing lost, nothing doubled, whether each goes on where the last one stopped or begins again.';

create function repair_json("text" text) returns jsonb
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    repaired jsonb;
begin
    perform _refuse_null('text', "text" is null);
    repaired := _repair_json("text");
    if repaired is null then
        raise exception 'there is no JSON in the text'
            using errcode = 'invalid_parameter_value', hint = 'An object or a list is looked for, also behind other words or in a fence.';
    end if;
    return repaired;
end
$$;
comment on function repair_json(text) is 'The JSON of a text, closed where it was cut off; every value that was complete is kept.';
