package egress

// For the table of addresses, most of which no test should try to reach.
var Forbidden = whyForbidden
