-- What the other files stand on: the extension, and one role of each kind that can be granted.
set client_min_messages = warning;
create extension pg_dialectic cascade;
create role regress_user;
create role regress_admin;
create role regress_stranger;
select dialectic.grant_user('regress_user');
select dialectic.grant_admin('regress_admin');
