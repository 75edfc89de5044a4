-- A build without the cargo feature test-hooks: nobody moves the clock, stops the worker or makes a call thread panic.
\set SHOW_CONTEXT never
load 'pg_dialectic';
show dialectic.clock_offset;
show dialectic.stop_at;
show dialectic.wait_poll_ms;
set dialectic.clock_offset = 3600;
set dialectic.stop_at = 'claimed';
select dialectic.add_model('hooked', 'simulator', settings => '{"panic": true}');
