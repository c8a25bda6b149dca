package thirdparty

import _ "github.com/rlgen/rlgen/ratelimit" // what is generated imports it
