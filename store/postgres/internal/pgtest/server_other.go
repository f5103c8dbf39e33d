//go:build !unix

package pgtest

import (
	"errors"
	"testing"
)

// Server is a PostgreSQL of our own, which there is not on this system.
type Server struct{}

// Start skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	missing(t, errors.ErrUnsupported)
	return nil
}

// Schema is not reached.
func (*Server) Schema(testing.TB) string { return "" }

// URL is not reached.
func (*Server) URL() string { return "" }

// Restart is not reached.
func (*Server) Restart(testing.TB) {}

func start(string) (*Server, error) { return nil, errors.ErrUnsupported }
