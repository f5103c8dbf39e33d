// Package group runs a command so that it ends together with everything it
// started.
package group
