//go:build !unix

// Package pgserver starts a PostgreSQL server of one's own, which it cannot on
// this system.
package pgserver

import "errors"

// Server is a PostgreSQL of our own.
type Server struct{}

// Start is ErrUnsupported.
func Start(string) (*Server, error) { return nil, errors.ErrUnsupported }

// StartVolatile is ErrUnsupported.
func StartVolatile(string) (*Server, error) { return nil, errors.ErrUnsupported }

// StartPair is ErrUnsupported.
func StartPair(string) (primary, standby *Server, err error) {
	return nil, nil, errors.ErrUnsupported
}

// Promote is not reached.
func (*Server) Promote() error { return errors.ErrUnsupported }

// Kill is not reached.
func (*Server) Kill() error { return errors.ErrUnsupported }

// URL is not reached.
func (*Server) URL() string { return "" }

// Restart is not reached.
func (*Server) Restart() error { return errors.ErrUnsupported }

// Stop is not reached.
func (*Server) Stop() {}

// RestartFast is not reached.
func (*Server) RestartFast() error { return errors.ErrUnsupported }
