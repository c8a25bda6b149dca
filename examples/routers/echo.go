package main

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rlgen/rlgen/examples/quickstart/shop"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// withEcho serves svc by echo. Its handlers return errors, and the HTTPErrorHandler answers them, after all middlewares; so
// net/http's stand around echo and not in echo.WrapMiddleware.
func withEcho(svc shop.Orders) http.Handler {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPDirect() // so that c.RealIP, which nothing here asks, believes no header
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		if !httplimit.WriteError(c.Response(), c.Request(), err) {
			e.DefaultHTTPErrorHandler(err, c)
		}
	}
	e.Use(echoAuthenticate)
	e.POST("/orders/:item", func(c echo.Context) error {
		id, err := svc.Create(c.Request().Context(), c.Param("item"))
		if err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, map[string]any{"id": id})
	})
	e.GET("/orders", func(c echo.Context) error {
		n, err := svc.Count(c.Request().Context())
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, map[string]any{"orders": n})
	})
	return httplimit.Headers()(identify(e))
}

// echoAuthenticate is authenticate for echo.
func echoAuthenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		c.SetRequest(r.WithContext(ratelimit.WithUser(r.Context(), caller(r))))
		return next(c)
	}
}
