-- Counting tokens for people and for SQL: as the model counts where that is known, and otherwise by what its provider reported so far.
--
-- How a text is counted is the core's business.

-- The model, with what was learned of its tokens; an error when there is none.
create function _measured_model(model text) returns table (tokenizer text, api_model text, factor double precision, samples integer)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select m.tokenizer, m.api_model, r.factor, r.samples
        from _current_models m
        left join token_ratios r on r.model = m.name
        where m.name = _measured_model.model;
    if not found then
        raise exception 'model "%" does not exist', coalesce(_measured_model.model, 'null')
            using errcode = 'undefined_object', hint = 'SELECT name, provider FROM dialectic.models lists them; dialectic.add_model(…) adds one.';
    end if;
end
$$;

create function count_tokens(text text, model text) returns bigint
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('text', count_tokens.text is null);
    return (select _count_tokens(count_tokens.text, m.tokenizer, m.api_model, m.factor, m.samples) from _measured_model(count_tokens.model) as m);
end
$$;
comment on function count_tokens(text, text) is
    'How many tokens a text is to a model: exact for OpenAI''s and the simulator''s, for others by a ratio that is learned from what their providers report.';

create function count_message_tokens(messages jsonb, model text) returns bigint
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    odd bigint;
begin
    perform _refuse_null('messages', count_message_tokens.messages is null);
    if jsonb_typeof(count_message_tokens.messages) = 'array' then
        select m.nth into odd
        from jsonb_array_elements(count_message_tokens.messages) with ordinality as m(message, nth)
        where not coalesce(m.message ->> 'role' in ('system', 'user', 'assistant') and jsonb_typeof(m.message -> 'content') = 'string', false)
        order by m.nth
        limit 1;
    end if;
    if odd is not null or jsonb_typeof(count_message_tokens.messages) <> 'array' then
        raise exception 'these are no messages: %', case when odd is null then 'not a list' else format('number %s is none', odd) end
            using errcode = 'invalid_parameter_value',
                  detail = left(coalesce(count_message_tokens.messages -> (odd - 1)::integer, count_message_tokens.messages)::text, 200),
                  hint = 'Give [{"role": "user", "content": "a text"}, …]; roles are system, user and assistant.';
    end if;
    return (select _count_message_tokens(count_message_tokens.messages::text, m.tokenizer, m.api_model, m.factor, m.samples)
            from _measured_model(count_message_tokens.model) as m);
end
$$;
comment on function count_message_tokens(jsonb, text) is
    'How many tokens a model reads when it is sent these messages ([{"role": "system, user or assistant", "content": "a text"}, …]), with what its format puts around them.';

-- Keeps what claimers have learned; what was learned from more calls stays.
create function _learn_ratios(models text[], factors double precision[], samples integer[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    -- A claimer waits for nobody: what somebody is changing is learned another time.
    with known as (
        select r.model from token_ratios r where r.model = any (models) order by r.model for no key update skip locked
    )
    update token_ratios r
    set factor = t.factor, samples = t.samples, changed_at = _now()
    from unnest(models, factors, _learn_ratios.samples) as t(model, factor, samples)
    where r.model = t.model and r.model in (select k.model from known k) and r.samples < t.samples;
    insert into token_ratios (model, factor, samples)
    select t.model, t.factor, t.samples
    from unnest(models, factors, _learn_ratios.samples) as t(model, factor, samples)
    where not exists (select from token_ratios r where r.model = t.model)
    order by t.model
    on conflict (model) do nothing;
end
$$;
