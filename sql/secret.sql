-- Where the secret of a provider is found: set, checked, forgotten.
--
-- Only references are stored, and only those that dialectic.secret_prefixes admits; what a reference leads to is read at the
-- moment of a call, by the one who calls. Nothing here repeats what it was given: it may be a secret given by mistake.

-- Refuses what is no admissible reference, in words that do not contain it.
create function _check_reference(reference text) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    allowed text := _secret_prefixes();
begin
    if reference !~ '^env:[A-Za-z_][A-Za-z0-9_]*$' and (reference !~ '^file:/[^[:cntrl:]]+$' or reference ~ E'(/\\.\\.?(/|$)|//|/$)') then
        raise exception 'a secret is given by reference, and this is none'
            using errcode = 'invalid_parameter_value',
                  hint = 'It would stay in the server log, in WAL and in every backup. Use env:NAME or file:/path.';
    end if;
    if not exists (select from regexp_split_to_table(allowed, ',') as p(prefix)
                   where trim(p.prefix) <> '' and starts_with(reference, trim(p.prefix))) then
        raise exception 'this reference is not allowed here'
            using errcode = 'invalid_parameter_value',
                  detail = format('It must begin with one of: %s.', allowed),
                  hint = 'Rename the variable, as in env:DIALECTIC_OPENAI_API_KEY; '
                         'a superuser can also set dialectic.secret_prefixes.';
    end if;
end
$$;

-- The statement of an error goes to the server log, and with it what was given: not the one of this function.
create function set_secret(provider text, reference text) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
    set log_min_error_statement = panic
as $$
begin
    if not exists (select from _current_providers p where p.name = set_secret.provider) then
        raise exception 'provider "%" does not exist', coalesce(set_secret.provider, 'null')
            using errcode = 'undefined_object', hint = 'Add it with dialectic.add_provider(…) first.';
    end if;
    if set_secret.reference is null then
        delete from secrets s where s.provider = set_secret.provider and s.is_shipped = _is_shipping();
    else
        perform _check_reference(set_secret.reference);
        insert into secrets as s (provider, reference) values (set_secret.provider, set_secret.reference)
        on conflict on constraint secrets_pkey do update set reference = excluded.reference, changed_at = _now();
    end if;
    -- A provider that was paused for want of a key may have one now.
    delete from provider_cooldowns c where c.provider = set_secret.provider;
    perform _notify_worker(null, false);
end
$$;
comment on function set_secret(text, text) is
    'Says where the secret of a provider is found: env:NAME or file:/path, as far as dialectic.secret_prefixes admits it. Null forgets it. A literal secret is refused.';
