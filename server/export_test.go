package server

// Protocols are all protocols, for tests that call each of their routes.
var Protocols = protocols
