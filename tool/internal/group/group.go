// Package group ends a command together with all processes that it started.
package group
