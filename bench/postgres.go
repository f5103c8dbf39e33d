package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
)

// postgresPlaces starts a server with a schema for each contender. The returned
// function ends it.
func postgresPlaces(dir string) (func(context.Context, int) (place, error), func(), error) {
	server, err := pgserver.Start(dir)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, i int) (place, error) {
		schema := fmt.Sprint("contender_", i)
		admin, err := pgx.Connect(ctx, server.URL())
		if err != nil {
			return place{}, err
		}
		_, err = admin.Exec(ctx, "CREATE SCHEMA "+schema)
		if err := errors.Join(err, admin.Close(ctx)); err != nil {
			return place{}, err
		}
		u, err := url.Parse(server.URL())
		if err != nil {
			return place{}, err
		}
		q := u.Query()
		q.Set("search_path", schema)
		u.RawQuery = q.Encode()
		return place{url: u.String(), schema: schema}, nil
	}, server.Stop, nil
}
