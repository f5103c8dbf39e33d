package client

import (
	"context"
	"net/http"
)

// LoginURL makes an address that logs a browser in, once, with what the key may
// do.
func (c *Client) LoginURL(ctx context.Context) (string, error) {
	made, _, err := request[struct {
		Path string `json:"path"`
	}](ctx, c, call{method: http.MethodPost, path: "/v1/logins"})
	if err != nil {
		return "", err
	}
	at, err := c.base.Parse(made.Path)
	if err != nil {
		return "", err
	}
	return at.String(), nil
}
