#pragma once
#include "perfmodel_implicit.h"
