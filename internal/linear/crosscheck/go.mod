module github.com/holdfast-dev/holdfast/internal/linear/crosscheck

go 1.26.0

replace github.com/holdfast-dev/holdfast => ../../..

require (
	github.com/anishathalye/porcupine v1.1.0
	github.com/holdfast-dev/holdfast v0.0.0-00010101000000-000000000000
)
